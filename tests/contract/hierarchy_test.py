"""Two stages, a reduction inside every host and Adasum across hosts, against the reference."""

import ml_dtypes
import numpy as np
import pytest

from tests.contract import error_model
from tf_adasum.collectives.simulate import simulate

FLOATS = list(error_model.LIMITS)
LOCAL = ["sum", "mean"]
HOSTS = [[1], [3], [1, 1], [2, 1], [1, 2], [2, 2], [1, 1, 1], [3, 2], [4, 1, 2], [5, 5, 3, 4]]
SHAPES = [(), (3,), (0,), (17,), (5, 7), (2, 0, 3), (64,), (1000,), (130,)]


def _inputs(leaves, dtype, shapes=SHAPES):
    rng = np.random.default_rng(leaves)
    dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return [[np.asarray(rng.normal(size=s)).astype(dtype) for s in shapes] for _ in range(leaves)]


def _of_hosts(inputs, counts):
    """Cuts the leaves' lists into one list per host."""
    ends = np.cumsum(counts)
    return [inputs[end - count : end] for count, end in zip(counts, ends, strict=True)]


def _assert_alike(outputs):
    for of_leaf in outputs:
        for mine, first in zip(of_leaf, outputs[0], strict=True):
            assert mine.tobytes() == first.tobytes()


def _check(outputs, local, inputs, counts):
    _assert_alike(outputs)
    hosts = _of_hosts(inputs, counts)
    for variable, result in enumerate(outputs[0]):
        leaves = [[of_leaf[variable] for of_leaf in host] for host in hosts]
        error_model.check_hosts(local, result, leaves)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("local", LOCAL)
@pytest.mark.parametrize("counts", HOSTS, ids=str)
def test_agrees_with_the_reference_on_all_leaves(counts, local, dtype):
    inputs = _inputs(sum(counts), dtype)
    outputs = simulate(inputs, "adasum", local, counts)
    _check(outputs, local, inputs, counts)
    for _ in range(3):
        _assert_alike([outputs[0], *simulate(inputs, "adasum", local, counts)])


@pytest.mark.parametrize(
    "shapes", [[(0,)], [(), (0,)], [(1,)], [(500,)], [(1,)] * 9, [(9,), (900,)]]
)
@pytest.mark.parametrize("local", LOCAL)
def test_runs_of_any_size(local, shapes):
    """Fewer variables than ranks, empty ones, a large one: some ranks have no run of their own."""
    for counts in ([4, 3], [3, 5, 3]):
        inputs = _inputs(sum(counts), "float64", shapes)
        _check(simulate(inputs, "adasum", local, counts), local, inputs, counts)


@pytest.mark.parametrize("counts", HOSTS, ids=str)
def test_adasum_inside_is_one_tree(counts):
    inputs = _inputs(sum(counts), "float32")
    flat = simulate(inputs)
    _assert_alike([flat[0], *simulate(inputs, "adasum", "adasum", counts)])


@pytest.mark.parametrize("local", LOCAL)
def test_hosts_of_one_leaf_are_one_tree(local):
    for leaves in (1, 2, 3, 5):
        inputs = _inputs(leaves, "float32")
        _assert_alike([simulate(inputs)[0], *simulate(inputs, "adasum", local, [1] * leaves)])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("local", LOCAL)
def test_one_host_is_the_local_reduction(local, dtype):
    inputs = _inputs(5, dtype)
    _assert_alike([simulate(inputs, local)[0], *simulate(inputs, "adasum", local, [5])])
    _assert_alike([simulate(inputs, local)[0], *simulate(inputs, "adasum", local)])


@pytest.mark.parametrize("counts", [[2, 2], [2, 3, 1]], ids=str)
def test_known_values(counts):
    # Inside a host all leaves are alike; across hosts they are orthogonal: added.
    axes = np.repeat(np.arange(len(counts)), counts)
    inputs = [[np.eye(len(counts))[axis] * 6.0] for axis in axes]
    np.testing.assert_array_equal(
        simulate(inputs, "adasum", "sum", counts)[0][0], [6.0 * count for count in counts]
    )
    np.testing.assert_array_equal(
        simulate(inputs, "adasum", "mean", counts)[0][0], [6.0] * len(counts)
    )


def test_mean_of_large_float16_stays_finite():
    inputs = [[np.full(70, 60000.0, np.float16)]] * 5
    (result,) = simulate(inputs, "adasum", "mean", [3, 2])[0]
    np.testing.assert_allclose(result.astype(np.float64), 60000, rtol=2e-3)


@pytest.mark.parametrize("counts", [[2, 2], [1, 3, 2], [5, 0], [6, -1], []], ids=str)
def test_counts_must_add_up(counts):
    with pytest.raises(ValueError, match="add up to 5"):
        simulate([[np.zeros(2)]] * 5, "adasum", "sum", counts)


def test_local_reduction_must_fit():
    with pytest.raises(ValueError, match=r"among .*adasum.* Received: 'median'"):
        simulate([[np.zeros(2)]], "adasum", "median")
    with pytest.raises(ValueError, match=r"\['adasum', 'mean', 'sum'\]\. Received: 'min'"):
        simulate([[np.zeros(2)]], "adasum", "min")
    with pytest.raises(ValueError, match=r"'adasum' where local_reduction='mean'.*Received: 'sum'"):
        simulate([[np.zeros(2)]] * 2, "sum", "mean")
    with pytest.raises(ValueError, match="Received: int32"):
        simulate([[np.zeros(2, np.int32)]] * 2, "adasum", "sum")
