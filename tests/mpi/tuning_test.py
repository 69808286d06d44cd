"""What suits a host is measured once and kept, is the same on all ranks, and changes no bit."""

import os
from pathlib import Path

import numpy as np
import pytest

import tf_adasum as adasum
from adasumrun import timeline

VARIABLE = "TF_ADASUM_TUNE"
# Bytes of a chunk, and how many stay packed; tests/mpi runs with the defaults, 262144 and 8.
TUNINGS = [(65536, 1), (131072, 32), (1048576, 2), (524288, 1024)]
# The second and third begin inside of a chunk.
SIZES = [1_500_001, 7, 100_001, 20_000]


@pytest.fixture
def tuned(tmp_path_factory, monkeypatch):
    """Returns what an allreduce in a new communicator gives, and what its timeline says of it."""
    folder = tmp_path_factory.mktemp("tuning")
    number = iter(range(100))

    def run(setting, arrays):
        monkeypatch.setenv(VARIABLE, str(setting))
        path = folder / f"trace{next(number)}"
        group = adasum.world().split(color=0, options={"timeline": str(path)})
        adasum.allreduce_arrays(arrays, "adasum", group)
        group.close()
        (written,) = folder.glob(f"{path.name}.*")
        names = [event["name"] for event in timeline.read(written)]
        return arrays, [name for name in names if name.startswith("tuning: ")]

    return run


def _arrays(dtype="float32", make=np.empty):
    rng = np.random.default_rng([5, adasum.rank()])
    arrays = [make(size, dtype) for size in SIZES]
    for array in arrays:
        array[...] = rng.normal(size=array.shape).astype(dtype)
    return arrays


def _bytes(arrays):
    return [array.tobytes() for array in arrays]


@pytest.fixture
def path(tmp_path_factory):
    """Of this rank's file, of which only rank 0's counts; its folder is not there yet."""
    return tmp_path_factory.mktemp("cache") / "folder" / "tuning"


def _write(path, text):
    """On rank 0."""
    if adasum.rank() == 0:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def _num_cores():
    return len(os.sched_getaffinity(0))


def _is_crowded():
    return adasum.local_size() > _num_cores()


def _host_kind():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(line.partition(": ")[2] for line in lines if line.startswith("model name"))
    cores = min(max(_num_cores() // adasum.local_size(), 1), 8)
    instructions = adasum.world().instruction_set
    return f"{model}, {instructions}, {adasum.local_size()} ranks, cores of each: {cores}"


def _check_measured(said):
    """Unless the ranks share cores."""
    assert ["measured in" in text for text in said] == [True] * (not _is_crowded())


def test_a_measurement_is_kept_by_the_first_rank(tuned, path):
    _check_measured(tuned(path, _arrays())[1])
    assert path.exists() == (adasum.rank() == 0 and not _is_crowded())
    if path.exists():
        assert path.read_text().split(" ", 2)[2] == _host_kind() + "\n"
        assert [file.name for file in path.parent.iterdir()] == ["tuning"]
    _, said = tuned(path, _arrays())
    if not _is_crowded():
        assert said[0].endswith("(kept from an earlier measurement)")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("make", [np.empty, adasum.empty], ids=["packed", "in the arena"])
def test_no_bit_depends_on_it(tuned, path, dtype, make):
    expected, said = tuned(0, _arrays(dtype, make))
    assert not said
    for chunk_bytes, packed_chunks in TUNINGS:
        _write(path, f"{chunk_bytes} {packed_chunks} any host\n")
        results, said = tuned(path, _arrays(dtype, make))
        assert said[0].startswith(
            f"tuning: chunks of {chunk_bytes // 1024} KiB, {packed_chunks} kept packed"
        )
        assert _bytes(results) == _bytes(expected)


@pytest.mark.parametrize("verbose", ["0", "1"])
def test_the_first_rank_tells_the_user_if_asked(tuned, path, monkeypatch, capfd, verbose):
    monkeypatch.setenv("TF_ADASUM_VERBOSE", verbose)
    _write(path, "65536 1 any host\n")
    tuned(path, _arrays())
    line = "tf_adasum: ranks of a host exchange chunks of 64 KiB, 1 kept packed (kept from an "
    said = capfd.readouterr().err
    assert (line in said) is (adasum.rank() == 0 and verbose == "1")
    # Which of the two, cross_memory_test.py holds to what the system allows.
    assert ("; tensors outside of shared memory are packed" in said) is (line in said)


def test_one_rank_that_has_it_off_turns_it_off_for_all(tuned, path):
    _write(path, "65536 1 any host\n")
    last = adasum.rank() == adasum.size() - 1
    _, said = tuned(0 if last else path, _arrays())
    assert not said


@pytest.mark.parametrize("numbers", ["0 8", "262144 0", "1000 8", "-65536 8", "4096", "x y", ""])
def test_what_no_measurement_wrote_is_measured_again(tuned, path, numbers):
    text = f"524288 4 another processor\nnonsense\n{numbers} {_host_kind()}\n"
    _write(path, text)
    _check_measured(tuned(path, _arrays())[1])
    if adasum.rank() == 0 and not _is_crowded():
        lines = path.read_text().splitlines()
        assert lines[0] == "524288 4 another processor"
        assert lines[-1].endswith(f" {_host_kind()}")
        assert int(lines[-1].split()[0]) >= 65536


def test_a_file_that_cannot_be_written_keeps_nothing(tuned, tmp_path_factory):
    blocked = tmp_path_factory.mktemp("cache") / "file"
    blocked.write_text("no folder")
    _, said = tuned(blocked / "tuning", _arrays())
    _check_measured(said)
    assert not any("kept in" in text for text in said)
    assert blocked.read_text() == "no folder"


def test_a_small_allreduce_measures_nothing(tuned, path):
    _, said = tuned(path, [np.ones(2**18 - 1, np.float32)])
    assert not said
    assert not path.exists()


def test_other_settings_are_refused_on_all_ranks(monkeypatch):
    if adasum.rank() == 0:
        monkeypatch.setenv(VARIABLE, "off")
    expected = f"rank 0: Expected {VARIABLE} to be 0, 1 or the whole path of a file. Received: off"
    with pytest.raises(ValueError, match=expected):
        adasum.world().split(color=0)
