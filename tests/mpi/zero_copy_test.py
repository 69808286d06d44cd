"""Arrays in the arena are reduced where they lie: the bits of packed ones, and nothing is sent."""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from adasumrun import timeline
from tf_adasum.collectives import reductions

# A tensor of 64 KiB lies in the arena; shorter ones beside it are copied.
LISTS = {"one": [40_000], "many": [40_001, 0, 7, 300_000, 1, 900], "long": [1_500_001]}
DTYPES = ["float16", ml_dtypes.bfloat16, "float32", "float64", "int32", "int64", "bool"]


def _pairs(sizes, dtype):
    """The same values as ordinary arrays, and in the arena."""
    rng = np.random.default_rng([3, adasum.rank()])
    ordinary = [rng.normal(scale=3, size=size).astype(dtype) for size in sizes]
    in_arena = [adasum.empty(size, dtype) for size in sizes]
    for array, values in zip(in_arena, ordinary, strict=True):
        array[...] = values
    return ordinary, in_arena


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("sizes", LISTS.values(), ids=LISTS.keys())
@pytest.mark.parametrize("reduction", reductions.names())
def test_bits_are_those_of_packed_arrays(sizes, dtype, reduction):
    ordinary, in_arena = _pairs(sizes, dtype)
    try:
        adasum.allreduce_arrays(ordinary, reduction)
    except ValueError:  # no such reduction of this dtype
        with pytest.raises(ValueError, match=reduction):
            adasum.allreduce_arrays(in_arena, reduction)
        return
    adasum.allreduce_arrays(in_arena, reduction)
    for array, expected in zip(in_arena, ordinary, strict=True):
        assert array.tobytes() == expected.tobytes()


@pytest.mark.parametrize("sizes", LISTS.values(), ids=LISTS.keys())
def test_one_rank_without_arena_makes_all_pack(sizes):
    ordinary, in_arena = _pairs(sizes, "float32")
    mixed = [array.copy() for array in in_arena] if adasum.rank() == 0 else in_arena
    adasum.allreduce_arrays(ordinary)
    adasum.allreduce_arrays(mixed)
    for array, expected in zip(mixed, ordinary, strict=True):
        np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("reduction", ["adasum", "sum"])
def test_long_results_with_memory_of_their_own(reduction):
    ordinary, in_arena = _pairs([2_200_001, 5], "float32")  # more than 8 MiB
    adasum.allreduce_arrays(ordinary, reduction)
    tensors = [tf.constant(array) for array in in_arena]
    for _ in range(4):  # past the caches and through them, in turn
        results = adasum.allreduce(tensors, reduction)
        for result, expected in zip(results, ordinary, strict=True):
            assert result.numpy().tobytes() == expected.tobytes()
    for tensor, array in zip(tensors, in_arena, strict=True):
        np.testing.assert_array_equal(tensor, array)


def test_no_element_is_sent(tmp_path_factory):
    folder = tmp_path_factory.mktemp("timeline")
    group = adasum.world().split(color=0, options={"timeline": str(folder / "trace")})
    ordinary, in_arena = _pairs(LISTS["long"], "float32")
    adasum.allreduce_arrays(ordinary, "adasum", group, "packed")
    adasum.allreduce_arrays(in_arena, "adasum", group, "in place")
    group.close()  # which ends its timeline
    (written,) = folder.iterdir()
    sent = dict(timeline.sent_bytes(timeline.read(written)))
    size = adasum.size()
    assert sent["packed"] >= ordinary[0].nbytes * (size - 1) / size
    # Where it lies and what copying costs, its inner products, and that it is done.
    assert sent["in place"] <= (size - 1) * (2 * 64 + 8 * size * (size + 1) // 2 + 1)
