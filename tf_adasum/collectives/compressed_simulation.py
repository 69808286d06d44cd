"""`simulate` for tensors that travel encoded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tf_adasum.collectives import native
from tf_adasum.collectives.compressed_allreduce import check_reduction
from tf_adasum.collectives.compression.compression import Compression, work_dtype
from tf_adasum.collectives.compression.simulated_state import SimulatedState, kept_kinds
from tf_adasum.collectives.refusals import refusal, shown


def simulate_compressed(
    ranks: Sequence[Sequence[np.ndarray]],
    reduction: str,
    compression: Compression | None,
    state: SimulatedState | None,
) -> list[list[np.ndarray | None]]:
    """What every rank would get from `allreduce` with this compression.

    Args:
        ranks: one list per rank, each with one array per variable, alike on all ranks.
        reduction: "adasum", "mean" or "sum".
        compression: how the arrays travel.
        state: what was lost before; it becomes what is lost now.

    Returns:
        The same nesting of arrays; None for those that travel as they are.

    Raises:
        As `simulate`.
    """
    Compression.check(compression)
    check_reduction(reduction)
    if state is not None and not isinstance(state, SimulatedState):
        expected = "an adasum.compression.SimulatedState, or None, as state"
        advice = "Pass SimulatedState(inputs, compression)."
        raise TypeError(refusal(expected, shown(state), advice))
    arrays = ranks[0] if ranks else []
    encoded = [
        i for i, a in enumerate(arrays) if compression.encodes_elements(a.size, a.dtype.name)
    ]
    _check_state(ranks, compression, state)
    results: list[list] = [[None] * len(arrays) for _ in ranks]
    for dtype in ("float32", "float64"):
        places = [i for i in encoded if work_dtype(arrays[i].dtype.name) == dtype]
        if not places:
            continue
        inputs = [[of_rank[i].astype(dtype) for i in places] for of_rank in ranks]
        kept = _kept(state, [encoded.index(i) for i in places])
        for result, of_rank in zip(results, _reduced(inputs, reduction, compression.codec, kept)):
            for i, array in zip(places, of_rank):
                result[i] = array.astype(arrays[i].dtype)
    return results


def arriving(
    compression: Compression, array: np.ndarray, num_ranks: int, residual: np.ndarray | None
) -> np.ndarray:
    """What arrives of an array that one of so many ranks sends encoded, part by part.

    Args:
        compression: how.
        array: float32 or float64, C-contiguous.
        num_ranks: each gets a part.
        residual: like the array: what was lost before, which becomes what is lost now; None: what
            is lost is lost.
    """
    arrived = np.empty_like(array)
    native.lib.encode_and_decode(
        compression.codec,
        array.dtype.name,
        array.size,
        num_ranks,
        array.ctypes.data,
        0 if residual is None else residual.ctypes.data,
        arrived.ctypes.data,
    )
    return arrived


Nested = list[list[np.ndarray]]


def _kept(state: SimulatedState | None, places: Sequence[int]) -> tuple[Nested, Nested]:
    """Both kinds of residuals of the tensors at these places."""
    if state is None:
        return [], []
    residuals, of_parts = (
        [[of_rank[place] for place in places] for of_rank in kept]
        for kept in (state.residuals, state.part_residuals)
    )
    return residuals, of_parts


def _reduced(inputs: Nested, reduction: str, codec: str, kept: tuple[Nested, Nested]) -> Nested:
    """What each rank gets, of arrays of one dtype."""
    outputs = [[np.empty_like(array) for array in arrays] for arrays in inputs]
    native.lib.simulate_compressed(
        native.lib.SimulatedReduction(reduction, "", [len(inputs)]),
        codec,
        inputs[0][0].dtype.name,
        [array.size for array in inputs[0]],
        *map(_addresses, (inputs, outputs, *kept)),
    )
    return outputs


def _addresses(of_ranks: Sequence[Sequence[np.ndarray]]) -> list[list[int]]:
    return [[array.ctypes.data for array in arrays] for arrays in of_ranks]


def _check_state(
    ranks: Sequence[Sequence[np.ndarray]], compression: Compression, state: SimulatedState | None
) -> None:
    """The library is handed addresses: of other arrays it would write past the end."""
    if state is None:
        return
    expected = kept_kinds(ranks, compression)
    for kept, of_rank in ((state.residuals, expected[0]), (state.part_residuals, expected[1])):
        received = [[_kind(array) for array in arrays] for arrays in kept]
        if received != [of_rank] * len(ranks):
            advice = "Pass SimulatedState(inputs, compression)."
            wanted = f"a state of {len(ranks)} ranks with arrays of {of_rank} each"
            raise ValueError(refusal(wanted, str(received), advice))


def _kind(array: np.ndarray) -> tuple[tuple[int, ...], str]:
    return array.shape, array.dtype.name if array.flags.carray else "no plain array"
