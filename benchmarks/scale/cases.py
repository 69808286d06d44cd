"""What is reduced."""

import numpy as np

from benchmarks.gradient_lists import LISTS


def sizes_of(case: str) -> list[int]:
    """The elements of each tensor of a gradient list, of COUNTxELEMENTS or of one tensor."""
    if case in LISTS:
        return [int(np.prod(shape)) for shape in LISTS[case]()]
    count, _, elements = case.rpartition("x")
    return [int(elements)] * int(count or 1)
