"""Count sketches (Charikar et al., 2002), and Sketched SGD (Ivkin et al., arXiv:1903.04488)."""

import numpy as np


def hashes(num_elements, columns, factors):
    """Of each row, the columns and the signs of all places.

    Args:
        num_elements: below 2^32.
        columns: of a row.
        factors: [rows, 2], integers of 64 bits.
    """
    places = np.arange(num_elements, dtype=np.uint64)
    with np.errstate(over="ignore"):
        upper = [(a * places + b) >> np.uint64(32) for a, b in factors.astype(np.uint64)]
    return [
        ((bits >> np.uint64(1)).astype(np.int64) * columns >> 31, 1.0 - 2.0 * (bits % 2))
        for bits in upper
    ]


def splitmix(count, seed):
    """The first numbers of SplitMix64 (Steele et al., 2014) from a seed on."""
    with np.errstate(over="ignore"):
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = np.uint64(seed) + steps
        x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def planted(seed, num_elements, count):
    """Normal values, to `count` of which 60 was added or subtracted, and the places of these."""
    random = np.random.default_rng(seed)
    x = random.normal(size=num_elements)
    places = random.choice(num_elements, count, replace=False)
    x[places] += 60 * random.choice([-1, 1], count)
    return x, places


def table(x, columns, factors):
    """[rows, columns]."""
    result = np.zeros((len(factors), columns))
    for row, (column, sign) in zip(result, hashes(x.size, columns, factors)):
        np.add.at(row, column, sign * x)
    return result


def estimates(sketch, num_elements, factors):
    """Of all values, the medians over the rows."""
    rows = zip(sketch, hashes(num_elements, sketch.shape[1], factors))
    return np.median([sign * row[column] for row, (column, sign) in rows], axis=0)


class SketchedSGD:
    """N replicas, float64.

    Args:
        weight: a vector.
        sgd: rate and momentum.
        sizes: how many values are exchanged, and the columns of a sketch.
        factors_of: a function of the step, from 0, that returns its hashes' factors, [rows, 2].
        reduce: the tests' reference of the reduction.
        number: of replicas.
    """

    def __init__(self, weight, sgd, sizes, factors_of, reduce, number):
        self.weight, (self.rate, self.momentum) = weight.astype(float), sgd
        (self.count, self.columns), self.reduce = sizes, reduce
        self.factors_of, self.steps = factors_of, 0
        self.sums, self.waiting = (np.zeros((number, weight.size)) for _ in range(2))

    def step(self, gradients):
        """Of one gradient per replica."""
        self.sums = self.momentum * self.sums + gradients
        self.waiting = self.waiting + self.sums
        factors = self.factors_of(self.steps)
        self.steps += 1
        merged = np.mean([table(x, self.columns, factors) for x in self.waiting], axis=0)
        # Places that share a cell may have the same estimate: the first come first.
        order = np.argsort(-np.abs(estimates(merged, self.weight.size, factors)), kind="stable")
        candidates = order[: 4 * self.count]
        values = self.reduce(list(self.waiting[:, candidates]))
        heaviest = np.argsort(-np.abs(values))[: self.count]
        heavy = candidates[heaviest]
        self.weight[heavy] -= self.rate * values[heaviest]
        self.sums[:, heavy] = 0
        self.waiting[:, heavy] = 0
