"""How far a reduction may be from the float64 reference.

A result is compared by its L2 norm, for each variable. Its error is taken relative to the larger of
|reference| and the largest |input| of the variable: where inputs cancel (a scalar and its negative,
say) the exact result may be as small as you like, and no storage format keeps it relative to
itself; every format keeps it relative to what was added up.
"""

from __future__ import annotations

import importlib

import numpy as np

from tests.reference import hierarchy

LIMITS = {"float64": 1e-13, "float32": 1e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


def reference(reduction: str, inputs: list[np.ndarray]) -> np.ndarray:
    """Returns the reduction of one variable over all leaves, in float64 or the integers' type."""
    return importlib.import_module(f"tests.reference.{reduction}").reduce(inputs)


def relative_error(result: np.ndarray, expected: np.ndarray, inputs: list[np.ndarray]) -> float:
    """Returns |result - expected| / max(|expected|, largest |input|), 0 if that is 0."""
    scale = max([_norm(expected), *map(_norm, inputs)])
    if scale == 0.0:
        return float(np.count_nonzero(result))
    return _norm(result.astype(np.float64) - expected) / scale


def check(reduction: str, result: np.ndarray, inputs: list[np.ndarray]) -> None:
    """Fails unless `result` is the reduction of the inputs within its dtype's limit."""
    inputs = [np.asarray(each) for each in inputs]
    expected = reference(reduction, inputs)
    dtype = inputs[0].dtype
    assert result.dtype == dtype
    assert result.shape == inputs[0].shape
    if dtype.name not in LIMITS:
        np.testing.assert_array_equal(result, expected)
        return
    error = relative_error(result, expected, inputs)
    assert error <= LIMITS[dtype.name], (
        f"{reduction} of {len(inputs)} {dtype.name}{inputs[0].shape}: expected an error of at most "
        f"{LIMITS[dtype.name]}, got {error}"
    )


def check_hosts(local: str, result: np.ndarray, hosts: list[list[np.ndarray]]) -> None:
    """Fails unless `result` is Adasum over the hosts of each host's `local` reduction."""
    inputs = [np.asarray(each) for host in hosts for each in host]
    # What meets across hosts are the hosts' results.
    operands = inputs + hierarchy.reduce_hosts(hosts, local)
    dtype = inputs[0].dtype
    assert (result.dtype, result.shape) == (dtype, inputs[0].shape)
    error = relative_error(result, hierarchy.reduce(hosts, local), operands)
    assert error <= LIMITS[dtype.name], (
        f"adasum of hosts' {local}, {[len(host) for host in hosts]} {dtype.name}{result.shape}: "
        f"expected an error of at most {LIMITS[dtype.name]}, got {error}"
    )


def _norm(values: np.ndarray) -> float:
    values = np.abs(np.asarray(values).astype(np.float64))
    largest = values.max(initial=0.0)
    if largest == 0.0 or not np.isfinite(largest):
        return float(largest)
    # Scaled, so that squares of 1e-200 do not vanish.
    return float(largest * np.sqrt(np.sum((values / largest) ** 2)))
