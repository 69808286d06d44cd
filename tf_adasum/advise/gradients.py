"""Gradients of small batches: their squared norms at several batch sizes, and Adasum of them."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tf_adasum.advise import examples
from tf_adasum.advise.noise import Noise, estimate
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.simulate import simulate

_MOST_BYTES = 1 << 30  # of gradients that are kept at the same time
_PARTS = 4  # of a rank's batch

Vectors = list[np.ndarray]


class _Taken(threading.local):
    """What the optimizer of a replica was asked to apply: each replica has a thread of its own."""

    def __init__(self):
        self.gradients: list = []


class GradientStatistics(NamedTuple):
    """What gradients of this model are like, in the mean of all ranks.

    Attributes:
        noise: of each variable, from the smallest batches and all of them together.
        scale_by_batch: B_noise by batch size, from batches of that size and twice that size.
        orthogonality: by batch size and number of gradients, |Adasum|^2 / sum |g_i|^2.
    """

    noise: Noise
    scale_by_batch: dict[int, float]
    orthogonality: dict[int, dict[int, float]]


def measure(
    model: keras.Model, own: list[Any], rows: int, communicator: Communicator, parameters: int
) -> GradientStatistics | None:
    """Takes gradients at the weights that the model has; all ranks call it, inside `alone`.

    Args:
        model: whose `train_step` hands gradients to `model.optimizer`; no step is taken.
        own: batches of this rank's examples.
        rows: of each.
        communicator: the ranks; their numbers are averaged.
        parameters: of the model, by which gradients are counted that fit into memory.

    Returns:
        The statistics, the same on all ranks; None where there are less than two gradients, or
        the model's step does not hand them to its optimizer.
    """
    part = max(1, rows // _PARTS)
    wanted = min(32, max(2, _MOST_BYTES // (8 * max(parameters, 1))))
    leaves = list(_gradients(model, own, part, wanted)) if own else []
    number = 2 ** (len(leaves).bit_length() - 1) if leaves and leaves[0] else 0
    number = _fewest(number, communicator)
    if number < 2:
        return None
    return _statistics(leaves[:number], part, communicator)


def _statistics(leaves: list[Vectors], part: int, communicator: Communicator) -> GradientStatistics:
    norms: dict[int, np.ndarray] = {}
    kept: dict[int, dict[int, np.ndarray]] = {}
    size = part
    while True:
        norms[size] = np.mean([_squared_norms(leaf) for leaf in leaves], axis=0)
        kept[size] = _adasum_of_groups(leaves)
        if len(leaves) == 1:
            break
        pairs = zip(leaves[::2], leaves[1::2])
        leaves = [[(a + b) / 2 for a, b in zip(*pair)] for pair in pairs]
        size *= 2
    _average(
        [*norms.values(), *(each for found in kept.values() for each in found.values())],
        communicator,
    )
    sizes = sorted(norms)
    scales = {
        small: estimate(small, norms[small], big, norms[big]).scale
        for small, big in itertools.pairwise(sizes)
    }
    ratios = {
        size: {number: float(a / max(b, np.finfo(float).tiny)) for number, (a, b) in found.items()}
        for size, found in kept.items()
        if found
    }
    noise = estimate(sizes[0], norms[sizes[0]], sizes[-1], norms[sizes[-1]])
    return GradientStatistics(noise, scales, ratios)


def _adasum_of_groups(leaves: list[Vectors]) -> dict[int, np.ndarray]:
    """By number of leaves of a group: |Adasum|^2 of all groups, and the sum of all |g_i|^2."""
    had = sum(_squared_norms(leaf).sum() for leaf in leaves)
    found, number = {}, 1
    while len(leaves) > 1:
        # Pairs: neighbours first, as the tree has it.
        leaves = [simulate(list(pair))[0] for pair in zip(leaves[::2], leaves[1::2])]
        number *= 2
        found[number] = np.array([sum(_squared_norms(leaf).sum() for leaf in leaves), had])
    return found


def _squared_norms(vectors: Vectors) -> np.ndarray:
    return np.array([np.vdot(vector, vector) for vector in vectors], np.float64)


def _average(numbers: list[np.ndarray], communicator: Communicator) -> None:
    if communicator.size > 1:
        communicator.allreduce_arrays(numbers, "mean", "advise: gradients")


def _fewest(number: int, communicator: Communicator) -> int:
    if communicator.size == 1:
        return number
    has = np.zeros(64)  # one for each power of two up to this rank's
    has[: number.bit_length()] = 1
    communicator.allreduce_arrays([has], "sum", "advise: number of gradients")
    return 2 ** int((has == communicator.size).sum()) // 2


def _gradients(model: keras.Model, own: list[Any], rows: int, most: int) -> Iterator[Vectors]:
    """One list of arrays for each `rows` examples; empty ones where nothing came."""
    batches = (small for batch in own for small in examples.divided(batch, rows))
    taken = _Taken()

    def step(data):
        taken.gradients.clear()
        model.train_step(data)
        return [tf.convert_to_tensor(gradient) for gradient in taken.gradients]

    strategy = model.distribute_strategy
    function = lambda data: strategy.run(step, (data,))  # noqa: E731
    if not model.run_eagerly:
        function = tf.function(function)
    with _taking_gradients(model.optimizer, taken):
        for number, batch in enumerate(batches):
            if number == most:
                return
            local = [strategy.experimental_local_results(each)[0] for each in function(batch)]
            yield [gradient.numpy().astype(np.float32) for gradient in local]


@contextlib.contextmanager
def _taking_gradients(optimizer: keras.optimizers.Optimizer, taken: _Taken) -> Iterator[None]:
    """Inside, the optimizer takes no step: what it is asked to apply is put into `taken`."""

    def apply(grads, trainable_variables=None):
        taken.gradients.extend(gradient for gradient in grads if gradient is not None)

    object.__setattr__(optimizer, "apply", apply)
    try:
        yield
    finally:
        object.__delattr__(optimizer, "apply")
