"""Which gradients travel together, and in which order."""

from collections.abc import Sequence

from tf_adasum.collectives.refusals import refusal, shown

DEFAULT_BUCKET_BYTES = 25 * 2**20
# The first bucket closes early, so that the exchange starts soon after the backward pass does.
FIRST_BUCKET_BYTES = 2**20


def make_buckets(num_bytes: Sequence[int], bucket_bytes: int = DEFAULT_BUCKET_BYTES) -> list[list]:
    """Cuts a list of variables into buckets, from the last variable to the first.

    The backward pass produces the gradients of the last layers first, so that their bucket can
    travel while it still works on the others. A bucket closes once it holds `bucket_bytes`
    (the first one: 1 MiB); a variable is never divided.

    Args:
        num_bytes: size of each variable in bytes, in the order of the layers.
        bucket_bytes: size in bytes at which a bucket closes; at least 1.

    Returns:
        Lists of indices into `num_bytes`, in the order in which the buckets should be sent.

    Raises:
        ValueError: if `bucket_bytes` is not positive.

    Example:
        >>> make_buckets([4, 2**20, 8, 2**20])
        [[3], [2, 1, 0]]
    """
    if bucket_bytes < 1:
        advice = "Leave it out for the default."
        raise ValueError(refusal("bucket_bytes of at least 1", shown(bucket_bytes), advice))
    buckets: list[list] = []
    limit, filled = 0, 0
    for index in reversed(range(len(num_bytes))):
        if not buckets or filled >= limit:
            limit = bucket_bytes if buckets else min(FIRST_BUCKET_BYTES, bucket_bytes)
            filled = 0
            buckets.append([])
        buckets[-1].append(index)
        filled += num_bytes[index]
    return buckets
