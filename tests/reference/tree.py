"""The tree that defines the order of a reduction over N ranks, for any N."""


def reduce_tree(vectors, combine):
    """Folds rank r >= p into r - p (p: largest power of two <= N), then meets neighbours."""
    leaves = list(vectors)
    power = 1 << (len(leaves).bit_length() - 1)
    for rank in range(power, len(leaves)):
        leaves[rank - power] = combine(leaves[rank - power], leaves[rank])
    distance = 1
    while distance < power:
        for rank in range(0, power, 2 * distance):
            leaves[rank] = combine(leaves[rank], leaves[rank + distance])
        distance *= 2
    return leaves[0]


def leaves_in_time(count):
    """The leaf that each of `count` micro-batches becomes: those that fold follow each other."""
    power = 1 << (count.bit_length() - 1)
    folded = count - power
    return [leaf for i in range(folded) for leaf in (i, power + i)] + list(range(folded, power))
