"""What ranks exchange that upload only what is new: the changes of their gradients."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tensorflow.python.distribute import values as tf_values
from typing_extensions import override

from tf_adasum.collectives.refusals import refusal
from tf_adasum.collectives.uploads import sum_of_uploads
from tf_adasum.distribute.variables import first_copy, native_variable
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.plain_variable import make_plain_zeros
from tf_adasum.optimizers.exchanges import leaves_of, on_all
from tf_adasum.optimizers.own_replicas import OwnReplicas
from tf_adasum.optimizers.parts import Exchange
from tf_adasum.optimizers.tallies import Uploads

require_hooks(tf_values, "PerReplica")


class LazyExchange(Exchange):
    """The mean of gradients, each as old as a rank's last upload; then all make the same step.

    What it keeps is in plain variables of the rank, which no file holds: N ranks that load what one
    had would not have the mean that they believe in. The first step after loading uploads all.

    Args:
        rule: 1 or 2, as `Lazy` numbers them.
        threshold: c.
        num_moves: d_max, the steps whose moves set the threshold.
        most_steps: D, after which a rank uploads in any case.
    """

    reduction = "mean"

    def __init__(self, rule: int, threshold: float, num_moves: int, most_steps: int):
        self._rule = rule
        self._threshold = threshold
        self._num_moves = num_moves
        self._most_steps = most_steps
        self._places: dict[int, int] = {}
        # Of the step that is traced, by local replica: gradients at earlier weights.
        self._earlier: dict[int, list[tuple]] = {}
        self._now: dict[int, tf.Tensor] = {}  # weights of its begin, by their places
        self._own_replicas = OwnReplicas()
        self._counts = None

    @override
    def get_config(self):
        return {"mode": "gradient", "steps_per_sync": 1}

    @override
    def build(self, optimizer, variables):
        del optimizer
        self._variables = list(variables)
        self._places = {id(native_variable(each)): i for i, each in enumerate(variables)}
        self._last, self._mean, self._weights = (self._zeros() for _ in range(3))
        self._change = self._zeros() if self._rule == 1 else []
        self._moves = make_plain_zeros([self._num_moves], "float32")
        self._since = make_plain_zeros([], "int64")  # this rank's last upload
        self._counts = make_plain_zeros([3], "int64")  # as `Uploads` has them

    def _zeros(self) -> list[tf.Variable]:
        return [
            make_plain_zeros(each.shape, tf.as_dtype(each.dtype).name) for each in self._variables
        ]

    @property
    @override
    def uploads(self):
        return super().uploads if self._counts is None else Uploads(*map(int, self._counts.numpy()))

    @override
    def earlier_weights(self, weights):
        if any(id(native_variable(each)) not in self._places for each in weights):
            return None  # Keras says so of those that the optimizer does not know
        # Before weight decay. A rank that has not uploaded yet has nothing to compare with.
        self._now = {self._place(each): tf.identity(tf.convert_to_tensor(each)) for each in weights}
        has_none = self._is_first() if self._rule == 1 else self._never_uploaded()
        return [tf.where(has_none, now, self._weights[place]) for place, now in self._now.items()]

    @override
    def take_earlier_gradients(self, replica, weights, gradients):
        self._earlier[replica] = list(zip(map(self._place, weights), gradients))

    @override
    def around_update(self, strategy, grads, variables, update, idle):
        if strategy.extended.batch_share is not None:
            counts = strategy.extended.numbers.for_ops
            found = f"{counts} devices of the ranks" if counts else "a strategy with batch_share"
            expected = "Lazy to take the mean of ranks that count alike, with as many devices each"
            advice = "Give all ranks as many devices, and no batch_share."
            raise ValueError(refusal(expected, found, advice))
        places = [self._place(each) for each in variables]
        # A LossScaleOptimizer hands on float32 for float16 variables.
        found = zip(self._of_rank(strategy, grads), variables)
        own = [tf.cast(each, variable.dtype) for each, variable in found]
        earlier = self._earlier_of_rank(strategy, places)
        changes = [new - old for new, old in zip(own, earlier)]
        uploads = self._decides(changes, places, idle)
        num_uploads = self._upload(strategy.extended.communicator, own, places, uploads)
        weights = [self._now[place] for place in places]
        self._remember(uploads, own, changes, weights, places)
        update([on_all(strategy, tf.convert_to_tensor(self._mean[place])) for place in places])
        self._note_step(uploads, variables, weights)
        self._count(strategy.extended.communicator.size, uploads, num_uploads)

    def _place(self, variable) -> int:
        return self._places[id(native_variable(variable))]

    def _is_first(self) -> tf.Tensor:
        return tf.equal(self._counts[1], 0)

    def _never_uploaded(self) -> tf.Tensor:
        return tf.equal(self._counts[0], 0)

    def _of_rank(self, strategy, grads: Sequence) -> list[tf.Tensor]:
        """The means of the local replicas' gradients."""
        return self._own_replicas.reduce(leaves_of(strategy, grads), "mean", strategy.extended)

    def _earlier_of_rank(self, strategy, places: Sequence[int]) -> list[tf.Tensor]:
        replicas = [dict(self._earlier.pop(i)) for i in sorted(self._earlier)]
        if not replicas:
            raise ValueError(
                refusal(
                    "gradients of a batch at two weights, which Lazy compares, and which fit and "
                    "train_on_batch take for the optimizer that the model is compiled with",
                    "gradients of a loop or a train_step of your own, or of an optimizer in a "
                    "MultiOptimizer",
                    "Compile the model with it, and let train_step be Keras' or call it.",
                )
            )
        found = [
            tf_values.PerReplica([of_replica[place] for of_replica in replicas]) for place in places
        ]
        return self._of_rank(strategy, found)

    def _decides(self, changes, places, idle) -> tf.Tensor:
        """Whether this rank uploads."""
        if self._rule == 1:
            changes = [new - self._change[place] for new, place in zip(changes, places)]
        limit = self._threshold / self._num_moves * tf.reduce_sum(self._moves)
        is_due = tf.convert_to_tensor(self._since) >= self._most_steps
        norm = _norm2(changes)
        # What is no number shows at once, as it does without this. By `not (norm <= limit)` it
        # would not in a graph, where TensorFlow makes `norm > limit` of that.
        is_no_number = tf.math.is_nan(norm - limit)
        uploads = tf.reduce_any(
            tf.stack([is_due, norm > limit, is_no_number, self._never_uploaded()])
        )
        if idle is not None:  # without rows there is nothing to say
            uploads = tf.logical_and(uploads, tf.logical_not(tf.reduce_all(tf.stack(idle))))
        return uploads

    def _upload(self, communicator, own, places, uploads) -> tf.Tensor:
        """Adds what is new in uploads to the mean; returns how many ranks uploaded."""
        new = [each - self._last[place] for each, place in zip(own, places)]
        sums, num_uploads = sum_of_uploads(new, uploads, communicator, "what is new of gradients")
        for each, place in zip(sums, places):
            self._mean[place].assign_add(each / communicator.size)
        return num_uploads

    def _remember(self, uploads, own, changes, weights, places) -> None:
        def as_uploaded():
            for i, place in enumerate(places):
                self._last[place].assign(own[i])
                kept, new = (self._change, changes) if self._rule == 1 else (self._weights, weights)
                kept[place].assign(new[i])

        tf.cond(uploads, as_uploaded, lambda: None)
        if self._rule == 1:
            tf.cond(self._is_first(), lambda: self._take_snapshot(weights, places), lambda: None)

    def _take_snapshot(self, weights, places) -> None:
        for weight, place in zip(weights, places):
            self._weights[place].assign(weight)

    def _note_step(self, uploads, variables, weights) -> None:
        new = [tf.convert_to_tensor(first_copy(native_variable(each))) for each in variables]
        moved = _norm2([each - old for each, old in zip(new, weights)])
        step = self._counts[1]
        place = tf.one_hot(step % self._num_moves, self._num_moves)
        self._moves.assign(self._moves * (1 - place) + moved * place)
        self._since.assign(tf.where(uploads, tf.constant(1, tf.int64), self._since + 1))
        if self._rule == 1:
            places = [self._place(each) for each in variables]
            is_time = tf.equal((step + 1) % self._most_steps, 0)
            tf.cond(is_time, lambda: self._take_snapshot(new, places), lambda: None)

    def _count(self, num_ranks: int, uploads: tf.Tensor, num_uploads: tf.Tensor) -> None:
        vectors = tf.where(num_uploads > 0, num_ranks + num_uploads - 2, 0)
        one = tf.constant(1, tf.int64)
        self._counts.assign_add(tf.stack([tf.cast(uploads, tf.int64), one, vectors]))


def _norm2(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.add_n([tf.reduce_sum(tf.square(tf.cast(each, tf.float32))) for each in tensors])
