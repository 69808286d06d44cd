"""What a cell of the table checks: numbers of one device, the same bits on all replicas."""

from __future__ import annotations

import hashlib
from typing import Any

import keras
import numpy as np

from tests.keras.run import Run
from tests.training.replicas import everywhere


def check_equal(got: dict[str, Any], want: dict[str, Any], tolerance: float) -> None:
    """Fails unless all that a script returned is what it returned on one device."""
    for name, of_one in want.items():
        keras.tree.assert_same_structure(got[name], of_one)
        pairs = zip(leaves(got[name]), leaves(of_one), strict=True)
        for index, (mine, its) in enumerate(pairs):
            where = f"{name}[{index}] differs from one device"
            if its.dtype.kind in "fc":
                np.testing.assert_allclose(mine, its, rtol=tolerance, atol=tolerance, err_msg=where)
            else:
                np.testing.assert_array_equal(mine, its, err_msg=where)


def leaves(value: Any) -> list[np.ndarray]:
    """The arrays in a nested value."""
    return [np.asarray(leaf) for leaf in keras.tree.flatten(value)]


def check_training(result: dict[str, Any]) -> None:
    """Fails unless all numbers are finite and the loss, where there is one, has fallen."""
    for index, leaf in enumerate(leaves(result)):
        if leaf.dtype.kind == "f":
            assert np.isfinite(leaf.astype(np.float64)).all(), f"number {index} is not finite"
    losses = result.get("history", {}).get("loss")
    assert not losses or losses[-1] < losses[0], f"the loss does not fall: {losses}"


def check_equal_on_replicas(run: Run, result: dict[str, Any]) -> None:
    """Fails unless all ranks returned the same, and hold the same trainable weights.

    Compares bits, the weights of all local replicas too.
    """
    check_equal_on_ranks("result", leaves(result))
    for model in run.models:
        copies = [
            [variable.value.values[local].numpy() for variable in model.trainable_variables]
            for local in range(run.strategy.extended.num_local_replicas)
        ]
        for copy in copies[1:]:
            for own, first in zip(copy, copies[0], strict=True):
                np.testing.assert_array_equal(own, first, err_msg="weights of local replicas")
        check_equal_on_ranks("weights", copies[0])


def check_equal_on_ranks(what: str, arrays: list[np.ndarray]) -> None:
    """Fails unless every rank passes the same bits."""
    text = b"".join(
        repr((array.dtype.str, array.shape)).encode() + _bytes(array) for array in arrays
    )
    digest = np.frombuffer(hashlib.sha256(text).digest(), np.uint8)
    rows = everywhere(digest)
    assert (rows == rows[0]).all(), f"{what} of this rank or another is not that of rank 0"


def _bytes(array: np.ndarray) -> bytes:
    return repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
