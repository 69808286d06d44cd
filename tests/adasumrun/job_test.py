"""A process knows from its environment whether it is a rank, and whether all ranks are here."""

import pytest

from adasumrun import job

OPEN_MPI = {"OMPI_COMM_WORLD_SIZE": "4", "PMIX_RANK": "1"}
ENVIRONMENTS = {
    "no launcher": ({}, False, True),
    "Open MPI, one host": ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, True, True),
    "Open MPI, two hosts": ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, True, False),
    "MPICH, one host": ({"PMI_SIZE": "3", "MPI_LOCALNRANKS": "3"}, True, True),
    "MPICH, two hosts": ({"PMI_SIZE": "3", "MPI_LOCALNRANKS": "1"}, True, False),
    "Slurm tells ranks only": ({"PMIX_RANK": "0"}, True, False),
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_what_launchers_say(name):
    environment, is_launched, is_on_one_host = ENVIRONMENTS[name]
    assert job.is_launched(environment) is is_launched
    assert job.is_on_one_host(environment) is is_on_one_host


def test_rank_0_speaks_and_what_is_no_rank():
    assert job.speaks({}) and job.speaks({"PMI_RANK": "0"})
    assert not job.speaks({"PMI_RANK": "1"}) and not job.speaks({"OMPI_COMM_WORLD_RANK": "1"})
    assert not job.speaks({"PMIX_RANK": "1"})
    assert job.speaks({"SLURM_PROCID": "1"})  # it trains alone


@pytest.mark.parametrize("environment", [{}, {"PMIX_RANK": "0"}])
def test_the_number_of_ranks_is_none_where_no_launcher_says_it(environment):
    assert job.num_ranks(environment) is None


def test_the_number_of_ranks_is_the_job_s_and_not_the_host_s():
    assert job.num_ranks(ENVIRONMENTS["Open MPI, two hosts"][0]) == 4
    assert job.num_ranks(ENVIRONMENTS["MPICH, two hosts"][0]) == 3
    slurm = {"SLURM_STEP_NUM_TASKS": "5", "SLURM_PROCID": "0"}
    assert job.num_ranks({**slurm, "PMIX_RANK": "0", "PMIX_NAMESPACE": "slurm.pmix.1.0"}) == 5
    assert job.num_ranks({**slurm, "PMIX_RANK": "0", "PMIX_NAMESPACE": "prterun-vm-7@1"}) is None
    assert job.num_ranks({**slurm, **ENVIRONMENTS["Open MPI, two hosts"][0]}) == 4


def test_tasks_that_srun_starts_without_mpi_are_counted_by_the_first():
    slurm = {"SLURM_STEP_NUM_TASKS": "5", "SLURM_PROCID": "0"}
    assert job.num_lone_tasks(slurm) == 5
    assert job.num_ranks(slurm) is None
    for not_first in ({**slurm, "SLURM_PROCID": "1"}, {"SLURM_NTASKS": "5"}, {}):
        assert job.num_lone_tasks(not_first) == 0
    for _, (launched, is_launched, _) in ENVIRONMENTS.items():
        assert job.num_lone_tasks({**slurm, **launched}) == (0 if is_launched else 5)
