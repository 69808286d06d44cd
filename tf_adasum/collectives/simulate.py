"""The reductions without ranks: the same C++ code, with a thread in place of each rank."""

from collections.abc import Sequence

import numpy as np

from tf_adasum.collectives import native, reductions
from tf_adasum.collectives.as_array import as_array
from tf_adasum.collectives.checked_numbers import checked_int
from tf_adasum.collectives.compressed_simulation import simulate_compressed
from tf_adasum.collectives.compression import Compression, SimulatedState
from tf_adasum.collectives.refusals import refusal, shown


def simulate(
    inputs: Sequence[Sequence],
    reduction: str = "adasum",
    local_reduction: str = "adasum",
    leaves_per_host: Sequence[int] | None = None,
    compression: Compression | None = None,
    state: SimulatedState | None = None,
) -> list[list[np.ndarray]]:
    """What every rank would get from `allreduce`, computed in this process.

    Args:
        inputs: one list per rank, each with one array or tensor per variable; shapes and dtypes
            (see `allreduce`) of a variable are equal on all ranks. Any number of ranks, any layout
            in memory: what comes back is C-contiguous and in this machine's byte order.
        reduction: as for `allreduce`.
        local_reduction: as for `allreduce`: "sum" or "mean" reduces the ranks of a host first.
        leaves_per_host: how many of the ranks, in a row, each host has; None: one host has all.
        compression: as for `allreduce`; with one host and no local reduction.
        state: an `adasum.compression.SimulatedState` of these inputs, which is changed; None:
            what encoding loses is lost.

    Returns:
        The same nesting of arrays: what each rank gets.

    Raises:
        ValueError: if ranks differ in count, shape or dtype, for an unknown reduction, if the
            hosts' counts do not add up to the number of ranks, or for a compression beside hosts.
        TypeError: if inputs are no lists of arrays.

    Example:
        >>> import numpy as np, tf_adasum as adasum
        >>> parallel = [[np.array([2.0, 0.0])], [np.array([4.0, 0.0])]]
        >>> adasum.simulate(parallel)[0][0].tolist()  # parallel: averaged
        [3.0, 0.0]
        >>> adasum.simulate(parallel * 2, "adasum", "sum", [2, 2])[0][0].tolist()
        [6.0, 0.0]

    Source: Maleki et al., MLSys 2021, section 3; the tree for any number of ranks is ours
    (docs/architecture.md).
    """
    reductions.check_stages(reduction, local_reduction)
    ranks = _plain_lists(inputs)
    _check_alike(ranks)
    if compression is not None or state is not None:
        if local_reduction != "adasum" or leaves_per_host is not None:
            expected = "ranks of one tree, where compression is asked for"
            raise ValueError(refusal(expected, "hosts", "Leave one of the two out."))
        return _simulate_mixed(ranks, reduction, compression, state)
    outputs = [[np.empty_like(array) for array in arrays] for arrays in ranks]
    if not ranks or not ranks[0]:
        return outputs
    hosts = [len(ranks)] if leaves_per_host is None else _counts(leaves_per_host, len(ranks))
    simulated = native.lib.SimulatedReduction(reduction, local_reduction, hosts)
    for dtype in dict.fromkeys(array.dtype.name for array in ranks[0]):
        chosen = [index for index, array in enumerate(ranks[0]) if array.dtype.name == dtype]
        native.lib.simulate(
            simulated,
            dtype,
            [ranks[0][index].size for index in chosen],
            [[arrays[index].ctypes.data for index in chosen] for arrays in ranks],
            [[arrays[index].ctypes.data for index in chosen] for arrays in outputs],
        )
    return outputs


def _simulate_mixed(
    ranks: Sequence[Sequence[np.ndarray]],
    reduction: str,
    compression: Compression | None,
    state: SimulatedState | None,
) -> list[list[np.ndarray]]:
    """What `simulate` does where some of the arrays travel encoded."""
    reduced = simulate_compressed(ranks, reduction, compression, state)
    plain = [i for i in range(len(ranks[0]) if ranks else 0) if reduced[0][i] is None]
    as_they_are = simulate([[arrays[i] for i in plain] for arrays in ranks], reduction)
    for of_rank, arrays in zip(reduced, as_they_are):
        for i, array in zip(plain, arrays):
            of_rank[i] = array
    return reduced


def _plain_lists(inputs: Sequence[Sequence]) -> list[list[np.ndarray]]:
    try:
        return [[_plain(array) for array in arrays] for arrays in inputs]
    except (TypeError, ValueError) as error:  # no lists, or lists that are no array
        expected = "a list for each rank, each with an array for each variable"
        advice = "Pass [[array, ...], ...]."
        raise TypeError(refusal(expected, shown(inputs), advice)) from error


def _counts(leaves_per_host: Sequence[int], num_ranks: int) -> list[int]:
    try:
        counts = [checked_int("leaves_per_host", count, 1, num_ranks) for count in leaves_per_host]
    except (TypeError, ValueError):
        counts = []
    if sum(counts) != num_ranks:
        expected = f"counts of leaves per host, each at least 1, that add up to {num_ranks}"
        raise ValueError(refusal(expected, shown(leaves_per_host), "Correct them."))
    return counts


def _plain(array) -> np.ndarray:
    """As the native code reads it: aligned, C-contiguous, in this machine's byte order."""
    array = as_array(array)
    dtype = array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")
    # Not ascontiguousarray, which makes vectors of scalars.
    return np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def _check_alike(ranks: Sequence[Sequence[np.ndarray]]) -> None:
    for rank, arrays in enumerate(ranks):
        got = [f"{array.dtype.name}{array.shape}" for array in arrays]
        expected = [f"{array.dtype.name}{array.shape}" for array in ranks[0]]
        if got != expected:
            alike = f"the arrays of every rank to be {expected}, as rank 0's"
            raise ValueError(refusal(alike, f"{got} on rank {rank}", "Pass arrays that are alike."))
