"""What Adasum keeps of its leaves' squared norms, on real ranks, against NumPy in float64."""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from mpi4py import MPI

import tf_adasum as adasum
from tests.reference import adasum as reference
from tests.reference import hierarchy as hosts_reference
from tf_adasum.collectives.allreduce_replicas import allreduce_replicas, measured_allreduce_replicas

# Of the sum of the leaves' squared norms: what is combined on the way is rounded to the dtype.
LIMITS = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-6, "float64": 1e-12}
# Exchanged whole; in parts; longer than a block.
SHAPES = {
    "short": [(17,), (0,), (5, 7)],
    "long": [(33, 129), (3000,), (0,), (64,)],
    "blocks": [(300_000,), (1000,), (280_000,)],
}


def _inputs(leaves, dtype, shapes):
    rng = np.random.default_rng([leaves, len(shapes)])
    numpy_dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    common = [rng.normal(size=shape) for shape in shapes]
    return [
        [(own + rng.normal(size=own.shape)).astype(numpy_dtype) for own in common]
        for _ in range(leaves)
    ]


def _square(array):
    return float(np.sum(np.square(np.asarray(array).astype(np.float64))))


def _check(norms, inputs, limits, result_of=reference.reduce):
    """All ranks have the same bits, and they are what float64 says."""
    norms = norms.numpy()
    if len(inputs) == 1:
        assert np.isnan(norms).all()  # there is no Adasum
        return
    assert MPI.COMM_WORLD.allgather(norms.tobytes()) == [norms.tobytes()] * adasum.size()
    for tensor, limit in enumerate(limits):
        leaves = [of_leaf[tensor] for of_leaf in inputs]
        total = sum(map(_square, leaves))
        assert abs(norms[tensor, 1] - total) <= limit * total
        assert abs(norms[tensor, 0] - _square(result_of(leaves))) <= limit * total


@pytest.mark.parametrize("num_local", [1, 2])
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("shapes", SHAPES)
def test_agrees_with_the_reference(shapes, dtype, num_local):
    inputs = _inputs(adasum.size() * num_local, dtype, SHAPES[shapes])
    first = adasum.rank() * num_local
    mine = [[tf.constant(array) for array in inputs[first + r]] for r in range(num_local)]
    reduced, norms = measured_allreduce_replicas(mine, name=f"{shapes} {dtype} {num_local}")
    _check(norms, inputs, [LIMITS[dtype]] * len(reduced))
    plain = allreduce_replicas(mine, name=f"{shapes} {dtype} {num_local}, plain")
    assert [t.numpy().tobytes() for t in reduced] == [t.numpy().tobytes() for t in plain]


def test_mixed_dtypes_in_a_function():
    dtypes = ["float64", "float32", "float64", "float16"]
    inputs = [
        [array.astype(dtype) for array, dtype in zip(of_rank, dtypes)]
        for of_rank in _inputs(adasum.size(), "float64", [(9,), (8,), (7,), (6,)])
    ]

    @tf.function
    def reduce(*tensors):
        return measured_allreduce_replicas([list(tensors)], name="mixed")[1]

    norms = reduce(*inputs[adasum.rank()])
    _check(norms, inputs, [LIMITS[dtype] for dtype in dtypes])


@pytest.mark.parametrize("local_reduction", ["sum", "mean"])
@pytest.mark.parametrize("num_local", [1, 2])
def test_hosts_results_are_the_leaves(num_local, local_reduction, monkeypatch):
    hosts = [range(0, adasum.size() // 2 + 1), range(adasum.size() // 2 + 1, adasum.size())]
    hosts = [list(ranks) for ranks in hosts if len(ranks) > 0]
    host = next(index for index, ranks in enumerate(hosts) if adasum.rank() in ranks)
    monkeypatch.setenv("TF_ADASUM_HOST", f"host{host}")
    inputs = _inputs(adasum.size() * num_local, "float64", SHAPES["long"])
    first = adasum.rank() * num_local
    part = adasum.world().split(0)
    mine = [[tf.constant(array) for array in inputs[first + r]] for r in range(num_local)]
    _, norms = measured_allreduce_replicas(mine, part, "hosts", local_reduction=local_reduction)
    part.close()
    if len(hosts) == 1:
        assert np.isnan(norms.numpy()).all()  # there is no Adasum
        return
    of_hosts = []
    for ranks in hosts:
        leaves = [inputs[rank * num_local + r] for rank in ranks for r in range(num_local)]
        of_hosts.append(
            [hosts_reference.reduce_hosts([list(x)], local_reduction)[0] for x in zip(*leaves)]
        )
    _check(norms, of_hosts, [LIMITS["float64"]] * len(SHAPES["long"]))


def test_all_ranks_must_ask():
    if adasum.size() == 1:
        return
    reduce = measured_allreduce_replicas if adasum.rank() == 0 else allreduce_replicas
    with pytest.raises(tf.errors.InvalidArgumentError, match="measured") as error:
        reduce([[tf.zeros([3])]], name="one asks")
    assert "\n" not in error.value.message
    assert float(adasum.allreduce(tf.constant(1.0), "sum")) == adasum.size()  # usable


def test_no_gradient():
    tensor = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        (reduced,), _ = measured_allreduce_replicas([[tensor], [tensor]], name="no gradient")
    with pytest.raises(LookupError, match="adasum"):
        tape.gradient(reduced, tensor)
