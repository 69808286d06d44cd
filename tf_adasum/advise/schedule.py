"""What the ranks exchange in an allreduce, phase by phase: bytes and messages of every rank.

The integers of cc/algorithms/schedule.h, halving.cc, direct.cc, network_direct.cc and
recursive_doubling.cc, for all ranks at once; //tests/scale:schedule_test holds them equal to what
the C++ algorithms send, and tests/mpi/predicted_bytes_test.py what is enclosed (whole_tree.h). A
message is one call of the transport that sends something; barriers are not counted, here and there.
Tensors that ranks of a host read where they lie (cc/algorithms/zero_copy.h), or copy from there
(cross_memory.h), are not modelled: all is packed here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

LINE_ELEMENTS = 64  # halves and parts are multiples of it
ELEMENT_BYTES = 4
MOMENT_BYTES = 24
SHORT_BYTES = 4096  # up to here vectors are swapped whole
MOST_DIRECT = 8
MOST_IN_SWAP = 8  # ranks of one host, which send what is short to all with the request's key
NOBODY = -1


@dataclasses.dataclass(frozen=True)
class Phase:
    """What happens between two waits; arrays have one entry per rank.

    Attributes:
        kind: "fold", "halves", "moments", "gather", "return", "swap", "enclosed", "offer", "grams",
            "results".
        peer: whom the rank exchanges with, or NOBODY; all others of its group in a direct phase.
        sent_bytes: what the rank sends.
        messages: in how many messages.
        combined_bytes: how much of its own vector the rank then combines, or delivers.
        level: of the tree, from 0; the last one returns its result at once.
    """

    kind: str
    peer: np.ndarray
    sent_bytes: np.ndarray
    messages: np.ndarray
    combined_bytes: np.ndarray
    level: int = 0


def levels_of(size: int) -> int:
    """The levels of the tree, that of the folds aside: log2 of the largest power of two."""
    return size.bit_length() - 1


def halving(size: int, elements: int, variables: int, chunk_bytes: int) -> Iterator[Phase]:
    """Recursive halving and doubling; `variables` 0 for a reduction without moments."""
    power = 2 ** levels_of(size)
    rank = np.arange(size)
    is_inside = rank < power
    peers = []
    yield from _fold("fold", size, elements, chunk_bytes)
    begin, end = np.zeros(size, int), np.where(is_inside, elements, 0)
    for level in range(levels_of(size)):
        middle = begin + np.minimum(_whole_lines((end - begin) // 2), end - begin)
        is_left = rank & 2**level == 0
        lower, upper = middle - begin, end - middle
        keep, give = np.where(is_left, lower, upper), np.where(is_left, upper, lower)
        peer = np.where(is_inside, rank ^ 2**level, NOBODY)
        peers.append((peer, keep, give))
        yield _phase("halves", peer, give, chunk_bytes, keep, level)
        for round_ in range(level + 1 if variables else 0):
            yield _whole(
                "moments",
                np.where(is_inside, rank ^ 2**round_, NOBODY),
                MOMENT_BYTES * variables,
                level=level,
            )
        begin, end = np.where(is_left, begin, middle), np.where(is_left, middle, end)
    for level, (peer, keep, give) in reversed(list(enumerate(peers))):
        yield _phase("gather", peer, keep, chunk_bytes, give, level)
    yield from _fold("return", size, elements, chunk_bytes)


def doubling(size: int, elements: int) -> Iterator[Phase]:
    """Short vectors, swapped whole on every level."""
    power = 2 ** levels_of(size)
    rank = np.arange(size)
    yield from _fold("fold", size, elements, SHORT_BYTES)
    for level in range(levels_of(size)):
        peer = np.where(rank < power, rank ^ 2**level, NOBODY)
        yield _whole("swap", peer, ELEMENT_BYTES * elements, level=level)
    yield from _fold("return", size, elements, SHORT_BYTES)


def enclosed(size: int, elements: int) -> Phase:
    """Short vectors that go with the request's key, to all: cc/algorithms/whole_tree.cc."""
    ones = np.ones(size, int)
    num_bytes = (size - 1) * ELEMENT_BYTES * elements * ones
    return Phase("enclosed", NOBODY * ones, num_bytes, (size - 1) * ones, num_bytes)


def direct(size: int, elements: int, variables: int, chunk_bytes: int) -> Iterator[Phase]:
    """Every rank combines one part of all vectors: few ranks, of one host or each of its own."""
    ones = np.ones(size, int)
    border = _whole_lines(-(-elements * np.arange(size + 1) // size))
    part = np.diff(np.minimum(border, elements))
    chunk = chunk_bytes // ELEMENT_BYTES
    chunks = -(-part // chunk)
    everybody = NOBODY * ones
    yield Phase(
        *("offer", everybody, ELEMENT_BYTES * (elements - part), chunks.sum() - chunks),
        combined_bytes=ELEMENT_BYTES * part,
    )
    if variables:
        num_bytes = 8 * variables * size * (size + 1) // 2
        yield Phase("grams", everybody, (size - 1) * num_bytes * ones, (size - 1) * ones, 0 * ones)
    yield Phase(
        *("results", everybody, (size - 1) * ELEMENT_BYTES * part, (size - 1) * chunks),
        combined_bytes=ELEMENT_BYTES * (elements - part),
    )


def blocks(sizes: list[int], block_bytes: int) -> list[list[int]]:
    """Cuts a list of tensors, given by their elements, into blocks of whole tensors."""
    out: list[list[int]] = []
    for size in sizes:
        if out and ELEMENT_BYTES * (sum(out[-1]) + size) <= block_bytes:
            out[-1].append(size)
        else:
            out.append([size])
    return out


def runs(sizes: list[int], number: int) -> list[list[int]]:
    """Deals tensors in `number` runs of about equal size (cc/collectives/hierarchy.cc)."""
    out: list[list[int]] = [[] for _ in range(number)]
    total, offset = sum(sizes), 0
    for size in sizes:
        out[min((2 * offset + size) * number // (2 * total), number - 1)].append(size)
        offset += size
    return out


def _whole_lines(elements: np.ndarray) -> np.ndarray:
    return -(-elements // LINE_ELEMENTS) * LINE_ELEMENTS


def _phase(
    kind: str, peer: np.ndarray, sent: np.ndarray, chunk_bytes: int, other: np.ndarray, level: int
) -> Phase:
    """Of elements that are sent in chunks, and the `other` elements that come or stay."""
    sent = np.where(peer == NOBODY, 0, sent)
    chunks = -(-sent // (chunk_bytes // ELEMENT_BYTES))
    return Phase(kind, peer, ELEMENT_BYTES * sent, chunks, ELEMENT_BYTES * other, level)


def _whole(kind: str, peer: np.ndarray, num_bytes: int, level: int) -> Phase:
    is_there = (peer != NOBODY).astype(int)
    return Phase(kind, peer, num_bytes * is_there, is_there, num_bytes * is_there, level)


def _fold(kind: str, size: int, elements: int, chunk_bytes: int) -> Iterator[Phase]:
    """Ranks beyond the power of two give their vectors away, or get the result."""
    power = 2 ** levels_of(size)
    if size == power:
        return
    rank = np.arange(size)
    gives, takes = rank >= power, rank + power < size
    peer = np.where(gives, rank - power, np.where(takes, rank + power, NOBODY))
    sends, receives = (gives, takes) if kind == "fold" else (takes, gives)
    yield _phase(kind, peer, elements * sends, chunk_bytes, elements * receives, 0)
