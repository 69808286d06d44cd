"""Random descriptions of calls: valid ones, and what makes one of them no call."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.random_calls.calls import BAD_VALUES, FLOATS, OTHERS

REDUCTIONS = ("adasum", "sum", "mean", "min", "max", "product")
COLLECTIVES = (
    *("allreduce", "allreduce_arrays", "reduce_scatter"),
    *("allgather", "alltoall", "broadcast", "barrier"),
)
_DIMENSIONS = st.sampled_from([0, 1, 2, 3, 5, 17])
# Of more elements than a chunk of the exchange holds, now and then.
_HUGE = [[300_001], [3, 100_000]]
_NAMES = st.sampled_from([None, "gradient", "a/b:0", "\u00e9\u4e16", "x" * 300, "name with\nlines"])


@st.composite
def valid_calls(draw, size: int) -> dict[str, Any]:
    """Describes a call that a group of `size` ranks makes alike."""
    collective = draw(st.sampled_from(COLLECTIVES))
    reduction = draw(st.sampled_from(REDUCTIONS))
    if collective == "reduce_scatter" and reduction == "adasum":
        reduction = "sum"
    reduces = collective in ("allreduce", "allreduce_arrays", "reduce_scatter")
    is_float = reduces and reduction in ("adasum", "product")
    dtype = draw(st.sampled_from(FLOATS if is_float else FLOATS + OTHERS))
    # Rows are scattered, gathered and dealt.
    least = 0 if collective in ("allreduce", "allreduce_arrays", "broadcast") else 1
    shape = st.lists(_DIMENSIONS, min_size=least, max_size=3)
    shapes = draw(st.lists(shape, min_size=1, max_size=3))
    if draw(st.integers(0, 30)) == 30:
        shapes = [draw(st.sampled_from(_HUGE))]
    counts = st.lists(st.integers(0, 4), min_size=size, max_size=size)
    return {
        "collective": collective,
        "reduction": reduction,
        "dtype": dtype,
        "shapes": shapes,
        "seed": draw(st.integers(0, 2**16)),
        "name": draw(_NAMES),
        "root": draw(st.integers(0, size - 1)),
        "rows": draw(counts),
        "splits": draw(st.lists(counts, min_size=size, max_size=size)),
        "compiled": collective not in ("allreduce_arrays", "barrier")
        and draw(st.integers(0, 40)) == 40,
    }


@st.composite
def bad_calls(draw, size: int) -> dict[str, Any]:
    """Describes a call that any rank refuses by itself."""
    call = draw(valid_calls(size)) | {"compiled": False}
    arguments = ["name", "communicator"]
    if call["collective"] != "barrier":
        arguments.append("tensors")
    if call["collective"] in ("allreduce", "allreduce_arrays", "reduce_scatter"):
        arguments.append("reduction")
    if call["collective"] == "alltoall":
        arguments.append("splits")
    if call["collective"] == "broadcast":
        arguments.append("root")
    argument = draw(st.sampled_from(arguments))
    bad = set(BAD_VALUES) - _fits(argument, size)
    return call | {"bad": {argument: draw(st.sampled_from(sorted(bad)))}}


def _fits(argument: str, size: int) -> set[str]:
    """Which of the bad values an argument takes."""
    if argument in ("name", "communicator", "splits"):
        return {"none"}
    if argument == "root" and size > 3:
        return {"number"}
    # A number is a tensor, and to some collectives a list of text is, too.
    return {"number", "list", "surrogate"} if argument == "tensors" else set()


@st.composite
def unlike_calls(draw, size: int) -> list[dict[str, Any]]:
    """Describes a call for each rank, of which one is not like the others."""
    call = draw(valid_calls(size)) | {"compiled": False}
    ways = ["name", "collective"]
    collective = call["collective"]
    if collective != "barrier":
        ways += ["dtype", "count"] if collective not in ("allgather", "alltoall") else ["dtype"]
    if collective == "broadcast":
        ways.append("root")
    if collective in ("allreduce", "allreduce_arrays", "reduce_scatter"):
        ways += ["reduction", "shape"]
    way = draw(st.sampled_from(ways))
    calls = [dict(call) for _ in range(size)]
    odd = calls[draw(st.integers(0, size - 1))]
    odd.update(_changed(call, way, size))
    return calls


def _changed(call: dict[str, Any], way: str, size: int) -> dict[str, Any]:
    """What is another thing in the call of one rank; floats take every reduction."""
    others = {
        "name": "another name",
        "collective": "barrier" if call["collective"] != "barrier" else "broadcast",
        "dtype": "float32" if call["dtype"] != "float32" else "float64",
        "root": (call["root"] + 1) % size,
        "reduction": "max" if call["reduction"] != "max" else "min",
    }
    if way == "count":
        return {"shapes": [*call["shapes"], [2]]}
    if way == "shape":
        first, *rest = call["shapes"]
        return {"shapes": [[*first, 2], *rest]}
    return {way: others[way]}


@st.composite
def splits(draw, size: int) -> dict[str, Any]:
    """Describes a split: which rank goes where, and sometimes what one of them can't ask for."""
    color = st.one_of(st.none(), st.integers(0, 2), st.sampled_from([-1, 2**31 - 1]))
    keys = st.lists(st.integers(-3, 3), min_size=size, max_size=size)
    options: list = [draw(st.sampled_from([None, None, {"shared_memory": False}]))] * size
    is_bad = draw(st.integers(0, 3)) == 0
    if is_bad:
        wrong = st.sampled_from([{"color": 3}, {"shared_memory": "no"}, {"": ""}])
        options[draw(st.integers(0, size - 1))] = draw(wrong)
    return {
        "colors": draw(st.lists(color, min_size=size, max_size=size)),
        "keys": draw(keys),
        "options": options,
        "is_bad": is_bad,
    }
