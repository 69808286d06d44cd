"""allreduce of tensors that travel encoded, on real ranks, beside simulated ones."""

import re

import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from tests.mpi.rows import check_refused, check_refused_by_one
from tf_adasum import compression

CODECS = {
    "identity": compression.Identity(),
    "float16": compression.Float16(),
    "bfloat16": compression.BFloat16(),
    "sign": compression.Sign(),
    "top_k": compression.TopK(0.01),
    "quantized": compression.Quantized(2),
    "threshold": compression.Threshold(0.01),
    "sketch": compression.Sketch(0.01, 0.1),
}
# The last one takes several messages.
SHAPES = [(1000,), (7, 333), (3,), (), (0, 5), (300_001,)]
REDUCTIONS = ["adasum", "mean", "sum"]


def _inputs(step, dtype="float32"):
    """Of every rank."""
    return [
        [
            np.random.default_rng([step, rank, i]).normal(size=shape).astype(dtype)
            for i, shape in enumerate(SHAPES)
        ]
        for rank in range(adasum.size())
    ]


def _assert_same_bits(mine, expected):
    for a, b in zip(mine, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert a.numpy().tobytes() == b.tobytes()


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", sorted(CODECS))
def test_real_ranks_get_the_bits_of_simulated_ones(name, reduction):
    codec = CODECS[name]
    state = compression.State([tf.zeros(shape) for shape in SHAPES], codec)
    simulated = compression.SimulatedState(_inputs(0), codec)
    for step in range(2):
        inputs = _inputs(step)
        expected = adasum.simulate(inputs, reduction, compression=codec, state=simulated)
        tensors = [tf.constant(array) for array in inputs[adasum.rank()]]
        reduced = adasum.allreduce(tensors, reduction, compression=codec, state=state)
        _assert_same_bits(reduced, expected[adasum.rank()])
        _assert_same_bits(state.residuals, simulated.residuals[adasum.rank()])
        _assert_same_bits(state.part_residuals, simulated.part_residuals[adasum.rank()])


@pytest.mark.parametrize("name", ["sign", "threshold"])
def test_a_long_list_travels_in_groups_over_a_network_and_gets_the_same_bits(name):
    codec = CODECS[name]
    shapes = [(1_100_000,), (1070,), (3000, 400), (1_300_001,), (5001,)]
    inputs = [
        [np.random.default_rng([rank, i]).normal(size=s).astype("f4") for i, s in enumerate(shapes)]
        for rank in range(adasum.size())
    ]
    state = compression.State(inputs[0], codec)
    simulated = compression.SimulatedState(inputs, codec)
    for _ in range(2):
        expected = adasum.simulate(inputs, compression=codec, state=simulated)[adasum.rank()]
        tensors = [tf.constant(array) for array in inputs[adasum.rank()]]
        _assert_same_bits(adasum.allreduce(tensors, compression=codec, state=state), expected)
        _assert_same_bits(state.residuals, simulated.residuals[adasum.rank()])


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_in_a_function_without_a_state(dtype):
    codec = CODECS["sign"]
    inputs = _inputs(0, dtype)

    @tf.function
    def reduce(tensors):
        return adasum.allreduce(tensors, "mean", name="encoded", compression=codec)

    tensors = [tf.constant(array) for array in inputs[adasum.rank()]]
    _assert_same_bits(reduce(tensors), adasum.simulate(inputs, "mean", compression=codec)[0])


def test_a_state_in_a_function_is_that_of_eager_calls():
    codec = CODECS["top_k"]
    tensors = [tf.constant(array) for array in _inputs(0)[adasum.rank()]]
    states = [compression.State(tensors, codec) for _ in range(2)]
    compiled = tf.function(lambda: adasum.allreduce(tensors, compression=codec, state=states[1]))
    for _ in range(3):
        eager = adasum.allreduce(tensors, compression=codec, state=states[0])
        _assert_same_bits(compiled(), [tensor.numpy() for tensor in eager])
    kept = [variable.numpy() for variable in states[0].variables]
    _assert_same_bits(states[1].variables, kept)
    assert adasum.size() == 1 or any(np.any(array) for array in kept)


def test_who_read_a_residual_keeps_what_was_read():
    codec = CODECS["sign"]
    tensors = [tf.constant(array) for array in _inputs(0)[adasum.rank()]]
    state = compression.State(tensors, codec)
    adasum.allreduce(tensors, compression=codec, state=state)
    read = [variable.read_value() for variable in state.variables]
    copies = [tensor.numpy().copy() for tensor in read]
    adasum.allreduce(tensors, compression=codec, state=state)
    _assert_same_bits(read, copies)
    has_peers = adasum.size() > 1
    changed = [np.any(v.numpy() != copy) for v, copy in zip(state.variables, copies)]
    assert any(changed) == has_peers


def test_what_follows_is_undisturbed():
    codec = CODECS["float16"]
    for number in range(50):
        adasum.allreduce(tf.ones([2000]), "sum", compression=codec)
        total = adasum.allreduce(tf.fill([3], float(number)), "sum")
        assert total.numpy().tolist() == [number * adasum.size()] * 3


@pytest.mark.parametrize("compiled", [False, True])
def test_ranks_with_unlike_codecs_are_told(compiled):
    codec = CODECS["sign"] if adasum.rank() == 0 else CODECS["float16"]

    def reduce(tensor):
        return adasum.allreduce(tensor, name="unlike", compression=codec)

    check_refused(reduce, tf.ones([2000]), compiled, "allreduce(adasum) by sign", "by float16")


def test_encoded_tensors_have_no_gradient():
    @tf.function
    def gradient(x):
        return tf.gradients(adasum.allreduce(x, "mean", compression=CODECS["sign"]), x)

    with pytest.raises(LookupError, match="with compression, which has none"):
        gradient(tf.ones([2000]))


def test_a_state_of_other_tensors_is_refused_on_any_number_of_ranks():
    state = compression.State([tf.ones([2000])], CODECS["sign"])
    with pytest.raises(ValueError, match=r"Expected a state of tensors of shapes \['\(2001,\)'\]"):
        adasum.allreduce(tf.ones([2001]), compression=CODECS["sign"], state=state)


@pytest.mark.parametrize("shapes", [[(3,), (2001,)], [(3,)], []], ids=str)
def test_a_state_of_other_tensors_is_refused_before_any_travels(shapes):
    state = compression.State([tf.ones([2000])], CODECS["sign"])
    tensors = [tf.ones(shape) for shape in shapes]
    check_refused_by_one(
        lambda: adasum.allreduce(tensors, compression=CODECS["sign"], state=state),
        ValueError,
        "Expected a state of tensors of shapes",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"compression": CODECS["sign"], "local_reduction": "sum"}, "one tree over all ranks"),
        ({"compression": CODECS["sign"], "reduction": "max"}, "Received: 'max'"),
        ({"compression": "sign"}, "one of adasum.compression's codecs"),
        ({"compression": CODECS["sign"], "state": []}, "an adasum.compression.State, or None"),
    ],
)
@pytest.mark.parametrize("shapes", [[(2000,)], []], ids=["a tensor", "an empty list"])
def test_bad_settings_give_one_sentence_and_ask_nobody(shapes, arguments, message):
    tensors = [tf.ones(shape) for shape in shapes]
    line = rf"\A[^\n]*Expected [^\n]*{re.escape(message)}[^\n]*\Z"
    kinds = (TypeError, ValueError)
    check_refused_by_one(lambda: adasum.allreduce(tensors, **arguments), kinds, line)
