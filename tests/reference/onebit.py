"""1-bit Adam (Tang et al., ICML 2021), 1-bit LAMB (Li et al., arXiv:2104.06069) and 0/1 Adam (Lu et
al., arXiv:2202.06009) in NumPy.
"""

import numpy as np

from tests.reference import compressed

B1, B2, EPSILON = 0.9, 0.999, 1e-7


class OneBitAdam:
    """N replicas on some ranks; float32, since a sign hangs on the last bit.

    Args:
        weight: a vector.
        rate: the learning rate.
        freeze_step: after so many steps momenta are exchanged.
        references: the tests' references of the reduction, and of the codec.
        number: of replicas, and of ranks.
    """

    def __init__(self, weight, rate, freeze_step, references, number):
        self.weight, self.rate, self.freeze_step = weight.copy(), rate, freeze_step
        self.reduce, self.q = references
        replicas, ranks = number
        self.momentum, self.variance = np.zeros_like(weight), np.zeros_like(weight)
        part = compressed.parts(weight.size, ranks)[0]
        self.residuals = [np.zeros_like(weight) for _ in range(replicas)]
        self.of_parts = [np.zeros(part.stop, weight.dtype) for _ in range(ranks)]
        self.steps = 0

    def step(self, gradients):
        """Of one gradient per replica."""
        is_frozen = self.steps >= self.freeze_step
        self.steps += 1
        if is_frozen:
            own = [self.momentum + (1 - B1) * (g - self.momentum) for g in gradients]
            self.meet(own)
        else:
            gradient = self.reduce(gradients)
            self.momentum = self.momentum + (1 - B1) * (gradient - self.momentum)
            self.variance = self.variance + (1 - B2) * (gradient**2 - self.variance)
        self.update(is_frozen)

    def meet(self, momenta):
        """Reduces momenta that travel encoded."""
        self.momentum, self.residuals, self.of_parts = compressed.allreduce(
            momenta, self.reduce, self.q, self.residuals, self.of_parts
        )

    def direction(self):
        """Of the step; 0 where the variance is."""
        frozen_at = min(self.steps, self.freeze_step)
        scale = np.sqrt(1 - B2**frozen_at) / (1 - B1**self.steps)
        moves = scale * self.momentum / (np.sqrt(self.variance) + EPSILON)
        return np.where(self.variance > 0, moves, 0).astype(self.weight.dtype)

    def update(self, is_frozen):
        """Moves the weight."""
        del is_frozen
        self.weight = self.weight - np.float32(self.rate) * self.direction()


class ZeroOneAdam(OneBitAdam):
    """Besides: its steps that change the variance, by their numbers, and the lengths of its rounds.

    Args:
        weight, rate, freeze_step, references, number: as above.
        variance_steps: those before freeze_step in which gradients travel.
        rounds: numbers of local steps, one after the other, from freeze_step on.
    """

    def __init__(self, *arguments, variance_steps, rounds):
        super().__init__(*arguments)
        self.variance_steps, self.rounds = variance_steps, list(rounds)
        self.weights = [self.weight] * len(self.residuals)
        self.begin()

    def begin(self):
        """Of a round."""
        self.start, self.taken, self.sizes = self.weights[0], 0, 0.0
        self.sums = [np.zeros_like(self.weight) for _ in self.weights]
        self.momenta = [self.momentum] * len(self.weights)

    def step(self, gradients):
        """As above; `weights` are those of all replicas then."""
        if self.steps >= self.freeze_step:
            self.steps += 1
            self.local_step(gradients)
            return
        self.freeze_step, kept = (
            (self.steps + 1 if self.steps in self.variance_steps else self.steps),
            self.freeze_step,
        )
        super().step(gradients)
        self.freeze_step = kept
        self.weights = [self.weight] * len(self.weights)
        self.begin()

    def size(self):
        """What the step multiplies the momentum by."""
        updates = sum(step < self.steps for step in self.variance_steps)
        return self.rate * np.sqrt(1 - B2**updates) / (1 - B1**self.steps)

    def direction(self):
        """Of the step; 0 where the variance is."""
        moves = self.size() / self.rate * self.momentum / (np.sqrt(self.variance) + EPSILON)
        return np.where(self.variance > 0, moves, 0).astype(self.weight.dtype)

    def local_step(self, gradients):
        """Each by itself; the last one of a round meets."""
        size = np.float32(self.size())
        denominator = np.sqrt(self.variance) + np.float32(EPSILON)
        self.momenta = [m + (1 - B1) * (g - m) for m, g in zip(self.momenta, gradients)]
        self.sums = [u + size * m for u, m in zip(self.sums, self.momenta)]
        self.weights = [
            np.where(self.variance > 0, w - size * m / denominator, w)
            for w, m in zip(self.weights, self.momenta)
        ]
        self.sizes += size
        self.taken += 1
        if self.taken < self.rounds[0]:
            return
        del self.rounds[0]
        averages = [np.where(self.variance > 0, u / self.sizes, 0) for u in self.sums]
        self.meet([average.astype(self.weight.dtype) for average in averages])
        moves = self.sizes * self.momentum / denominator
        self.weight = np.where(self.variance > 0, self.start - moves, self.start)
        self.weights = [self.weight] * len(self.weights)
        self.begin()


class OneBitLamb(OneBitAdam):
    """Besides: the average of LAMB's ratio, the variance that goes on, and the last factor."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.fresh, self.ratio, self.factor = np.zeros_like(self.weight), 0.0, 1.0

    def step(self, gradients):
        """As above."""
        self.last = self.momentum
        super().step(gradients)

    def update(self, is_frozen):
        """Moves the weight by LAMB's step; the fresh variance is that of inferred gradients."""
        inferred = (self.momentum - B1 * self.last) / (1 - B1)
        self.fresh = self.fresh + (1 - B2) * (inferred**2 - self.fresh)
        direction = self.direction()
        if is_frozen:
            factor = np.max((np.sqrt(self.variance) + EPSILON) / (np.sqrt(self.fresh) + EPSILON))
            factor = np.clip(factor, 0.5, 4)
            self.factor = np.clip(factor, 0.9 * self.factor, 1.1 * self.factor)
            scale = self.factor * self.ratio
        else:
            ratio = np.linalg.norm(self.weight) / np.linalg.norm(direction)
            scale = np.clip(ratio, 0.01, 10)
            self.ratio = 0.9 * self.ratio + 0.1 * scale
        self.weight = self.weight - np.float32(self.rate * scale) * direction
