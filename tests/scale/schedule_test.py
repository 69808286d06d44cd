"""What tf_adasum.advise.schedule counts is what the C++ algorithms send, rank by rank."""

from pathlib import Path

import numpy as np
import pytest

from tests import programs
from tf_adasum.advise import schedule

PRINT_SENT = Path(__file__).with_name("print_sent")
CHUNK_BYTES = 256 << 10
# No tensor of few elements, which often cancel: a direct allreduce is followed by halving then.
LISTS = {
    "one": [1],
    "short": [1000],
    "ragged": [1000, 65, 0, 333, 2000],
    "chunks": [262147],
}
SIZES = range(2, 34)
# Files of so many ranks, each mapped by all, take a while.
FEWER_SIZES = [*range(2, 13), 16, 17, 33]


def _sent(wire, reduction, sizes, counts):
    """For each size the bytes and the messages of every rank."""
    lists = [",".join(map(str, numbers)) for numbers in (sizes, counts)]
    done = programs.run([str(PRINT_SENT), wire, reduction, *lists], 100)
    assert done.returncode == 0, done.stderr
    return [np.array(line.split(), int).reshape(-1, 2).T for line in done.stdout.splitlines()]


def _phases(wire, size, counts, reduction):
    elements = sum(counts)
    variables = len(counts) if reduction == "adasum" else 0
    if wire == "copies":
        return schedule.halving(size, elements, variables, CHUNK_BYTES)
    if schedule.ELEMENT_BYTES * elements <= schedule.SHORT_BYTES:
        return schedule.doubling(size, elements)
    algorithm = schedule.direct if size <= schedule.MOST_DIRECT else schedule.halving
    return algorithm(size, elements, variables, CHUNK_BYTES)


@pytest.mark.parametrize(
    ("wire", "reduction", "name", "sizes"),
    [
        *(("copies", "adasum", name, SIZES) for name in LISTS),
        *(("shared memory", "adasum", name, FEWER_SIZES) for name in LISTS),
        *((wire, "sum", "ragged", FEWER_SIZES) for wire in ("copies", "shared memory")),
    ],
)
def test_bytes_and_messages_are_those_of_the_algorithms(wire, reduction, name, sizes):
    counts = LISTS[name]
    for size, sent in zip(sizes, _sent(wire, reduction, sizes, counts), strict=True):
        phases = list(_phases(wire, size, counts, reduction))
        assert sum(phase.sent_bytes for phase in phases).tolist() == sent[0].tolist(), size
        assert sum(phase.messages for phase in phases).tolist() == sent[1].tolist(), size


def test_four_ranks_by_hand():
    """256 elements in two variables: halves of 128 and 64 elements there and back, three rounds."""
    phases = list(schedule.halving(4, 256, 2, CHUNK_BYTES))
    kinds = ["halves", "moments", "halves", "moments", "moments", "gather", "gather"]
    assert [phase.kind for phase in phases] == kinds
    sent = [4 * 128, 48, 4 * 64, 48, 48, 4 * 64, 4 * 128]
    assert [phase.sent_bytes.tolist() for phase in phases] == [[each] * 4 for each in sent]
    assert [phase.peer[1] for phase in phases] == [0, 0, 3, 0, 3, 3, 0]


def test_blocks_hold_whole_tensors():
    assert schedule.blocks([5, 5, 30, 1, 9], 40) == [[5, 5], [30], [1, 9]]


def test_runs_are_about_equal():
    assert schedule.runs([8, 8, 1, 7, 8, 8], 2) == [[8, 8, 1], [7, 8, 8]]
    assert schedule.runs([100, 1], 3) == [[], [100], [1]]
