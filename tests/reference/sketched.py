"""Count sketches (Charikar et al., 2002), and Sketched SGD (Ivkin et al., arXiv:1903.04488)."""

import numpy as np

PRIME = 2**31 - 1


def hashes(num_elements, rows, columns):
    """Of each row, the columns and the signs of all places."""
    places = np.arange(num_elements, dtype=np.int64)
    return [
        ((a * places + b) % PRIME * columns >> 31, 1 - 2 * ((c * places + d) % PRIME % 2))
        for a, b, c, d in splitmix(4 * rows).reshape(rows, 4)
    ]


def splitmix(count):
    """The first numbers of SplitMix64 (Steele et al., 2014) from 0, as factors from 1 to p - 1."""
    with np.errstate(over="ignore"):
        x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return ((x ^ x >> np.uint64(31)) % np.uint64(PRIME - 1)).astype(np.int64) + 1


def table(x, rows, columns):
    """[rows, columns]."""
    result = np.zeros((rows, columns))
    for row, (column, sign) in zip(result, hashes(x.size, rows, columns)):
        np.add.at(row, column, sign * x)
    return result


def estimates(sketch, num_elements):
    """Of all values, the medians over the rows."""
    rows = zip(sketch, hashes(num_elements, *sketch.shape))
    return np.median([sign * row[column] for row, (column, sign) in rows], axis=0)


class SketchedSGD:
    """N replicas, float64.

    Args:
        weight: a vector.
        sgd: rate and momentum.
        sizes: how many values are exchanged, and rows and columns of a sketch.
        reduce: the tests' reference of the reduction.
        number: of replicas.
    """

    def __init__(self, weight, sgd, sizes, reduce, number):
        self.weight, (self.rate, self.momentum) = weight.astype(float), sgd
        (self.count, *self.shape), self.reduce = sizes, reduce
        self.sums, self.waiting = (np.zeros((number, weight.size)) for _ in range(2))

    def step(self, gradients):
        """Of one gradient per replica."""
        self.sums = self.momentum * self.sums + gradients
        self.waiting = self.waiting + self.sums
        merged = np.mean([table(x, *self.shape) for x in self.waiting], axis=0)
        # Places that share a cell may have the same estimate: the first come first.
        order = np.argsort(-np.abs(estimates(merged, self.weight.size)), kind="stable")
        candidates = order[: 4 * self.count]
        values = self.reduce(list(self.waiting[:, candidates]))
        heaviest = np.argsort(-np.abs(values))[: self.count]
        heavy = candidates[heaviest]
        self.weight[heavy] -= self.rate * values[heaviest]
        self.sums[:, heavy] = 0
        self.waiting[:, heavy] = 0
