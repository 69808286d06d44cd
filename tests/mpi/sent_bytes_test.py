"""What a rank sends, counted in its timeline, is what the schedule says."""

import math

import pytest
import tensorflow as tf

import tf_adasum as adasum
from adasumrun import timeline

ELEMENT_BYTES = 4
LINE_ELEMENTS = 64  # what halves and parts are multiples of
MOMENT_BYTES = 24
MOST_DIRECT = 8
CACHE_LINES = 4 * 64  # bytes; what parts of a vector of float32 are multiples of
SHORT_BYTES = 4096  # shorter vectors are exchanged whole
MOST_IN_SWAP = 8  # ranks of one host, which send them with the request's key
BLOCK_ELEMENTS = 2**18  # a tensor of so many float32 fills a block of shared memory

# Lists that travel in one piece, or in pieces of one tensor each.
LISTS = {
    "one": [5],
    "fewer elements than ranks": [1],
    "ragged": [1000, 15, 1, 0, 333],
    "even": [5760, 512, 1408],  # whole cache lines for each of up to six ranks
    "blocks": [BLOCK_ELEMENTS, 2 * BLOCK_ELEMENTS, BLOCK_ELEMENTS],
}


@pytest.fixture(name="has_shared_memory", scope="module", params=[True, False])
def _has_shared_memory(request):
    return request.param


@pytest.fixture(name="sent", scope="module")
def _sent(has_shared_memory, tmp_path_factory):
    """Bytes sent for each list and reduction, over one transport."""
    world = adasum.world()  # made before, so that it has no timeline there
    folder = tmp_path_factory.mktemp("timeline")
    # Of tensors that are packed: what lies in shared memory is not sent (zero_copy_test.py), and
    # before others are copied, ranks tell each other where they are (cross_memory_test.py).
    options = {"shared_memory": has_shared_memory, "zero_copy": False, "cross_memory": False}
    options["timeline"] = str(folder / "trace")
    communicator = world.split(color=0, options=options)
    for name, sizes in LISTS.items():
        tensors = [tf.ones([size]) for size in sizes]
        for reduction in ("adasum", "sum"):
            adasum.allreduce(tensors, reduction, communicator, f"{reduction} {name}")
    communicator.close()  # which ends its timeline
    (written,) = folder.iterdir()
    return dict(timeline.sent_bytes(timeline.read(written)))


def _round_up(elements):
    return -(-elements // LINE_ELEMENTS) * LINE_ELEMENTS


def _by_halving(rank, size, elements, num_moments):
    """A fold sends its vector once; on every level a rank gives one half and returns the other."""
    power = 2 ** int(math.log2(size))
    if rank >= power:
        return ELEMENT_BYTES * elements
    sent = elements if rank + power < size else 0
    begin, end = 0, elements
    rounds = 0
    for level in range(int(math.log2(size))):
        sent += end - begin
        middle = begin + min(_round_up((end - begin) // 2), end - begin)
        begin, end = (middle, end) if rank & 2**level else (begin, middle)
        rounds += level + 1
    return ELEMENT_BYTES * sent + MOMENT_BYTES * num_moments * rounds


def _by_doubling(rank, size, elements, num_moments):
    """A rank gives its vector away whole on every level; no moments travel."""
    del num_moments
    levels = int(math.log2(size))
    folds = int(rank >= 2**levels or rank + 2**levels < size)
    return ELEMENT_BYTES * elements * (folds + levels * (rank < 2**levels))


def _enclosed(rank, size, elements, num_moments):
    """A rank gives its vector to all others."""
    del rank, num_moments
    return (size - 1) * ELEMENT_BYTES * elements


def _directly(rank, size, elements, num_moments):
    """A rank sends all parts but its own, its part of the result, and its inner products."""

    def border(part):
        return min(_round_up(-(-elements * part // size)), elements)

    own = border(rank + 1) - border(rank)
    gram_bytes = 8 * size * (size + 1) // 2
    vectors = ELEMENT_BYTES * (elements - own + (size - 1) * own)
    return vectors + (size - 1) * num_moments * gram_bytes


def _is_direct(has_shared_memory):
    """Between ranks that share no memory it pays where halving would fold."""
    size = adasum.size()
    return size <= MOST_DIRECT and (has_shared_memory or size & (size - 1) != 0)


def test_bytes_sent_are_those_of_the_schedule(sent, has_shared_memory):
    rank, size = adasum.rank(), adasum.size()
    for name, sizes in LISTS.items():
        expected_of = _by_halving
        if ELEMENT_BYTES * sum(sizes) <= SHORT_BYTES:
            is_enclosed = has_shared_memory and size <= MOST_IN_SWAP
            expected_of = _enclosed if is_enclosed else _by_doubling
        elif _is_direct(has_shared_memory):
            expected_of = _directly
        # A block where no memory is shared holds all of them.
        in_pieces = name == "blocks" and has_shared_memory
        pieces = [[each] for each in sizes] if in_pieces else [sizes]
        for reduction in ("adasum", "sum"):
            expected = 0
            for piece in pieces:
                num_moments = len(piece) if reduction == "adasum" else 0
                expected += expected_of(rank, size, sum(piece), num_moments)
            assert sent[f"{reduction} {name}"] == expected, (name, reduction)


def _formula(num_bytes, num_moments):
    """2 (p - 1) / p of the bytes and one more for a fold; 24 bytes a variable and round."""
    rank, size = adasum.rank(), adasum.size()
    levels = int(math.log2(size))
    power = 2**levels
    if rank >= power:
        return num_bytes
    folds = num_bytes if rank < size - power else 0
    rounds = sum(range(1, levels + 1))
    return 2 * (power - 1) * num_bytes // power + folds + MOMENT_BYTES * num_moments * rounds


def _formula_of_direct(num_bytes, num_moments):
    """2 (N - 1) / N of the bytes, and all inner products of N vectors to all others."""
    size = adasum.size()
    gram_bytes = 8 * size * (size + 1) // 2
    return 2 * (size - 1) * num_bytes // size + (size - 1) * gram_bytes * num_moments


def test_bytes_sent_are_those_of_the_formula(sent, has_shared_memory):
    formula = _formula_of_direct if _is_direct(has_shared_memory) else _formula
    for name, sizes in LISTS.items():
        num_bytes = 4 * sum(sizes)
        if num_bytes % (CACHE_LINES * adasum.size()) == 0:
            assert sent[f"sum {name}"] == formula(num_bytes, 0)
            assert sent[f"adasum {name}"] == formula(num_bytes, len(sizes))
