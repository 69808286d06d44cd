"""Buckets: every variable in exactly one, last layers first, limits respected."""

import pytest

from tf_adasum.distribute.bucketing import FIRST_BUCKET_BYTES, make_buckets

MIB = 2**20


@pytest.mark.parametrize("bucket_bytes", [1, 100, MIB, 25 * MIB])
@pytest.mark.parametrize("sizes", [[], [0], [5], [MIB] * 40, [3, 0, 7 * MIB, 1, 60 * MIB, 2]])
def test_every_variable_once_from_the_last_to_the_first(sizes, bucket_bytes):
    buckets = make_buckets(sizes, bucket_bytes)
    assert [index for bucket in buckets for index in bucket] == list(reversed(range(len(sizes))))
    assert all(buckets)


def test_a_bucket_closes_as_soon_as_it_is_full():
    sizes = [MIB] * 60
    buckets = make_buckets(sizes, 25 * MIB)
    assert [len(bucket) for bucket in buckets] == [FIRST_BUCKET_BYTES // MIB, 25, 25, 9]


def test_limit_must_be_positive():
    with pytest.raises(ValueError, match=r"at least 1\. Received: 0"):
        make_buckets([1], 0)
