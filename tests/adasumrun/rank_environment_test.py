"""The environment that adasumrun gives the ranks."""

import os

from adasumrun import hosts, mpirun


def test_sets_have_one_order_on_all_ranks():
    assert mpirun.rank_environment({}, 2)["PYTHONHASHSEED"] == "0"
    assert mpirun.rank_environment({"PYTHONHASHSEED": "random"}, 2)["PYTHONHASHSEED"] == "random"


def test_ranks_divide_the_cores():
    cores = hosts.available_cores()
    environment = mpirun.rank_environment({}, 2 * cores)
    assert environment["TF_NUM_INTRAOP_THREADS"] == "1"
    assert environment["TF_NUM_INTEROP_THREADS"] == "2"
    assert environment["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert environment["OMPI_MCA_mpi_yield_when_idle"] == "1"
    assert "OMPI_MCA_mpi_yield_when_idle" not in mpirun.rank_environment({}, cores)


def test_one_rank_keeps_all_cores():
    assert "TF_NUM_INTRAOP_THREADS" not in mpirun.rank_environment({}, 1)
    assert "TF_FORCE_GPU_ALLOW_GROWTH" not in mpirun.rank_environment({}, 1)


def test_what_the_user_set_is_kept():
    own = {
        "TF_NUM_INTRAOP_THREADS": "7",
        "TF_CPP_MIN_LOG_LEVEL": "0",
        "UCX_MEM_EVENTS": "y",
    }
    environment = mpirun.rank_environment(own, 64)
    assert own.items() <= environment.items()


def test_root_may_run(monkeypatch):
    for user, allowed in ((0, True), (1000, False)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        environment = mpirun.rank_environment({}, 2)
        assert ("OMPI_ALLOW_RUN_AS_ROOT" in environment) is allowed
