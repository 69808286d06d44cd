"""adasumrun over two hosts, joined by a cable: shared memory inside, MPI over TCP across.

The hosts are namespaces of this machine (benchmarks/hosts/namespaces.py), and mpirun reaches the
second one as by ssh: its processes are no children of the launcher.
"""

import json
import signal
import subprocess
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

from adasumrun import hosts
from benchmarks.hosts.namespaces import Hosts
from tests import programs
from tests.hosts import reduce_program

LIMIT_SECONDS = 120
PROGRAM = str(Path(reduce_program.__file__))
# What one rank of the second host is, by its variables of Open MPI.
IS_LAST = '[ "$OMPI_COMM_WORLD_RANK" = $((OMPI_COMM_WORLD_SIZE - 1)) ]'


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    with Hosts(tmp_path_factory.mktemp("hosts")) as made:
        yield made


def _command(network, counts, *program):
    """adasumrun on the first host, with so many ranks on each."""
    hosts = ",".join(f"{host.name}:{count}" for host, count in zip(network.hosts, counts))
    return network.hosts[0].command(
        *(*programs.ADASUMRUN, "-np", str(sum(counts)), "-H", hosts),
        *("--mpi-args", f"--prtemca plm_ssh_agent {network.agent}", *program),
    )


def _launch(network, counts, *program):
    return programs.run(_command(network, counts, *program), LIMIT_SECONDS)


def _await(condition, what):
    deadline = time.monotonic() + LIMIT_SECONDS / 2
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@pytest.mark.parametrize("counts", [(1, 1), (2, 1), (2, 2)], ids=str)
def test_agrees_with_the_reference(network, counts):
    before = [(host.sent_bytes("eth0"), host.sent_bytes("lo")) for host in network.hosts]
    done = _launch(network, counts, "--timeout=100", PROGRAM)
    assert done.returncode == 0, done.stderr
    ranks = sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda r: r["rank"])
    assert [seen["rank"] for seen in ranks] == list(range(sum(counts)))
    assert len({json.dumps(seen["digests"]) for seen in ranks}) == 1
    ends = np.cumsum(counts)
    hosts = [list(range(end - count, end)) for count, end in zip(counts, ends)]
    for host, of_host in zip(network.hosts, hosts, strict=True):
        for rank in of_host:
            assert ranks[rank]["host"] == host.name
            assert ranks[rank]["hosts"] == hosts
            # Each rank reads the memory of those beside it and nobody else's; where no host has
            # two ranks there is none.
            assert ranks[rank]["shared_files"] == (len(of_host) if max(counts) > 1 else 0)
    # Across hosts the whole vector goes each way once, whatever the reduction inside; inside,
    # nothing goes by TCP.
    num_bytes = sum(4 * int(np.prod(shape)) for shape in reduce_program.SHAPES)
    expected = num_bytes * len(reduce_program.LOCAL_REDUCTIONS)
    for host, (eth0, lo) in zip(network.hosts, before, strict=True):
        assert expected <= host.sent_bytes("eth0") - eth0 <= 1.1 * expected
        assert host.sent_bytes("lo") - lo <= 0.05 * expected


def test_output_and_exit_code_of_the_other_host(network):
    done = _launch(
        network, (2, 1), "sh", "-c", f"! {IS_LAST} || {{ hostname; exit 7; }}; sleep 600"
    )
    assert done.returncode == 7
    assert done.stdout.splitlines() == ["adasum2"]


WAYS = ["-H", "--hostfile", "--mpi-args"]


def _words_that_name_hosts(way, network, counts, folder):
    """The words of adasumrun by which a user names hosts, in each of the ways."""
    agent = f"--prtemca plm_ssh_agent {network.agent}"
    places = list(zip(network.hosts, counts, strict=True))
    if way == "-H":
        return [way, ",".join(f"{h.name}:{n}" for h, n in places), "--mpi-args", agent]
    path = folder / "hosts"
    path.write_text("".join(f"{h.name} slots={n}\n" for h, n in places))
    if way == "--hostfile":
        return [way, str(path), "--mpi-args", agent]
    return ["--mpi-args", f"--hostfile {path} {agent}"]


@pytest.mark.parametrize("way", WAYS)
def test_ranks_get_the_callers_variables_and_the_limits_of_their_host(network, way, tmp_path):
    """One rank more than cores on the first host, a rank alone on the second one."""
    crowd = hosts.available_cores() + 1
    script = 'echo "$(hostname) $TF_OF_THE_CALLER ${OMP_NUM_THREADS:--}'
    script += ' ${TF_NUM_INTRAOP_THREADS:--} ${OMPI_MCA_mpi_yield_when_idle:--}"'
    command = network.hosts[0].command(
        *(*programs.ADASUMRUN, "-np", str(crowd + 1), "--timeout=60"),
        *_words_that_name_hosts(way, network, (crowd, 1), tmp_path),
        *("sh", "-c", script),
    )
    done = programs.run(command, LIMIT_SECONDS, TF_OF_THE_CALLER="mine")
    expected = ["adasum1 mine 1 1 1"] * crowd + ["adasum2 mine - - -"]
    assert sorted(done.stdout.splitlines()) == expected, done.stderr


def test_timeout_ends_the_ranks_of_both_hosts(network):
    mark = str(uuid.uuid4())
    script = f"trap '' TERM INT; sleep 600; : {mark}"
    done = _launch(network, (1, 2), "--timeout=5", "sh", "-c", script)
    assert done.returncode == 124
    assert "ended all ranks after 5 s" in done.stderr
    _await(lambda: not programs.running(mark), "ranks are left")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signal_ends_the_ranks_of_both_hosts(network, number, tmp_path):
    mark = str(uuid.uuid4())
    script = f"touch {tmp_path}/$OMPI_COMM_WORLD_RANK; sleep 600; : {mark}"
    started = programs.start(_command(network, (1, 2), "sh", "-c", script))
    try:
        _await(lambda: len(list(tmp_path.iterdir())) == 3, "the ranks did not start")
        started.send_signal(number)
        code = started.wait(LIMIT_SECONDS)
    finally:
        started.kill()
    assert code == (-number if number == signal.SIGKILL else 128 + number)
    _await(lambda: not programs.running(mark), "ranks are left")


@pytest.mark.parametrize("fails", [False, True])
def test_a_host_that_vanishes_is_left_out_of_the_next_start(fails, tmp_path):
    """mpirun finds a cable cut where all is silent, and hangs where a rank fails just then."""
    mark = str(uuid.uuid4())
    rank, wait = "$OMPI_COMM_WORLD_RANK", "while [ ! -e cut ]; do sleep 0.1; done"
    fail = f"[ {rank} != 0 ] || exit 5" if fails else ":"
    first = f"touch up{rank}; {wait}; {fail}; sleep 600"
    script = f"cd {tmp_path}; [ $TF_ADASUM_RESTARTS = 1 ] || {{ {first}; }}; hostname; : {mark}"
    with Hosts(tmp_path) as network:
        command = _command(network, (2, 1), "--timeout=100", "sh", "-c", script)
        command.insert(command.index("-np"), "--max-restarts=1")
        command.insert(command.index("-np"), "--min-ranks=2")
        with open(tmp_path / "said", "w") as said:
            started = subprocess.Popen(
                command, env=programs.environment(), stdout=said, stderr=said
            )
            try:
                _await(lambda: len(list(tmp_path.glob("up*"))) == 3, "the ranks did not start")
                network.hosts[1].cut()
                (tmp_path / "cut").touch()
                code = started.wait(LIMIT_SECONDS)
            finally:
                started.kill()
        lines = (tmp_path / "said").read_text(errors="replace").splitlines()
        assert code == 0, lines
        assert lines.count("adasum1") == 2
        assert any("goes on with 2 ranks on adasum1:2" in line for line in lines)
        _await(lambda: not programs.running(mark), "ranks are left")
