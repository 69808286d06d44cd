"""`zeros_if` is tf.cond between zeros and the value, as one operation that copies nothing."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tf_adasum.collectives.zeros_if import zeros_if

DTYPES = (
    *(tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int8, tf.uint8, tf.int16, tf.uint16),
    *(tf.int32, tf.uint32, tf.int64, tf.uint64, tf.bool, tf.complex64, tf.complex128),
)
SHAPES = ((), (0,), (3,), (2, 0, 4), (5, 7))


def _values(dtype: tf.DType, shape: tuple[int, ...]) -> tf.Tensor:
    numbers = np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape)
    return tf.cast(tf.constant(numbers), dtype)


def _address(tensor: tf.Tensor) -> int:
    return np.asarray(memoryview(tensor)).ctypes.data  # `numpy()` would copy


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("in_graph", [False, True])
def test_it_is_the_cond(dtype, in_graph):
    function = tf.function(zeros_if) if in_graph else zeros_if
    for shape in SHAPES:
        value = _values(dtype, shape)
        for is_zero in (False, True):
            result = function(tf.constant(is_zero), value)
            assert result.dtype == dtype and result.shape == shape
            expected = tf.zeros_like(value) if is_zero else value
            np.testing.assert_array_equal(result.numpy(), expected.numpy())
            np.testing.assert_array_equal(value.numpy(), _values(dtype, shape).numpy())


def test_shapes_are_known_as_far_as_the_value_knows_its_own():
    @tf.function(input_signature=[tf.TensorSpec([]), tf.TensorSpec([None, 3]), tf.TensorSpec(None)])
    def function(number, rows, anything):
        zeros = [zeros_if(number > 0, value) for value in (rows, anything)]
        assert zeros[0].shape.as_list() == [None, 3] and zeros[1].shape.rank is None
        return zeros

    rows, anything = function(1.0, tf.ones([4, 3]), tf.ones([2]))
    assert not rows.numpy().any() and rows.shape == (4, 3) and anything.shape == (2,)


@pytest.mark.parametrize("is_zero", [False, True])
def test_gradients_are_zero_where_the_value_is_left_out(is_zero):
    value = tf.constant([1.0, -2.0, 3.0])
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(value)
        with tf.GradientTape() as inner:
            inner.watch(value)
            cubes = tf.reduce_sum(zeros_if(tf.constant(is_zero), value) ** 3)
        first = inner.gradient(cubes, value)
    factor = 0 if is_zero else 1
    np.testing.assert_array_equal(first, factor * 3 * value**2)
    np.testing.assert_array_equal(outer.gradient(first, value), factor * 6 * value)


def test_the_value_is_handed_on_where_it_lies():
    value = tf.random.normal([1024])
    same, zeros = [zeros_if(tf.constant(is_zero), value) for is_zero in (False, True)]
    assert _address(same) == _address(value) != _address(zeros)


def test_a_vector_of_conditions_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expected a scalar is_zero"):
        zeros_if(tf.constant([True, False]), tf.ones([2]))
    with pytest.raises(ValueError, match="Shape must be rank 0"):
        tf.function(zeros_if).get_concrete_function(tf.TensorSpec([2], tf.bool), tf.ones([2]))
