"""adasum.empty: arrays in the arena are reduced as any others, and give their memory back."""

import os

import ml_dtypes
import numpy as np
import pytest

import tf_adasum as adasum
from tf_adasum.collectives import native


def _in_arena(array):
    return native.lib.in_arena(array)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ml_dtypes.bfloat16])
def test_is_reduced_as_any_array(dtype):
    rng = np.random.default_rng([7, adasum.rank()])
    for shape in [(), 3, (5, 7), (300, 1000)]:
        ordinary = np.asarray(rng.normal(size=shape)).astype(dtype)
        array = adasum.empty(shape, dtype)
        assert _in_arena(array) and array.flags.c_contiguous and array.flags.writeable
        assert (array.shape, array.dtype) == (ordinary.shape, ordinary.dtype)
        array[...] = ordinary
        adasum.allreduce_arrays(array)
        adasum.allreduce_arrays(ordinary)
        assert array.tobytes() == ordinary.tobytes()


def test_memory_is_given_back_with_the_last_view():
    num_bytes = native.lib.arena_bytes()
    # One alone fits.
    for _ in range(5):
        array = adasum.empty(num_bytes * 3 // 4, "uint8")
        assert _in_arena(array)
        array[-1] = 5
        view = array[-10:]
        del array
        assert view[-1] == 5
        del view


def test_what_does_not_fit_is_an_ordinary_array():
    many = adasum.empty(native.lib.arena_bytes(), "uint8")
    assert not _in_arena(many)
    many[-1] = 1
    assert not _in_arena(adasum.empty([0, 3]))
    objects = adasum.empty(2, object)
    assert objects.tolist() == [None, None]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (([2, -1],), ValueError),
        ((10**30,), ValueError),
        ((["x"],), TypeError),
        (("",), TypeError),
        ((b"ab",), TypeError),
        (({},), TypeError),
        ((1.5,), TypeError),
        ((2, "x"), TypeError),
    ],
)
def test_no_shape_and_no_dtype_are_refused(arguments, error):
    with pytest.raises(error):
        adasum.empty(*arguments)


def test_a_forked_child_has_it_to_itself():
    array = adasum.empty(1000)
    array[:] = 1
    child = os.fork()
    if child == 0:
        array[:] += 1
        own = adasum.empty(1000)
        os._exit(0 if array[0] == 2 and not _in_arena(own) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (array == 1).all()
