"""AdasumStrategy: Keras `fit` on the replicas of one or several processes."""

from __future__ import annotations

import functools
import itertools
import logging
import weakref
from collections.abc import Sequence

import keras
import tensorflow as tf
from typing_extensions import override

from tf_adasum import keras_hooks
from tf_adasum.collectives.arguments import checked_group
from tf_adasum.collectives.checked_numbers import NO_LIMIT, checked_int
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.reductions import check_stages
from tf_adasum.collectives.refusals import refusal, shown
from tf_adasum.collectives.replica_numbers import ReplicaNumbers
from tf_adasum.distribute.batch_share import BatchShare
from tf_adasum.distribute.bucketing import DEFAULT_BUCKET_BYTES
from tf_adasum.distribute.cluster import resolver_of
from tf_adasum.distribute.cross_device_ops import AdasumCrossDeviceOps
from tf_adasum.distribute.devices import checked_devices, own_devices
from tf_adasum.distribute.divergence import DivergenceCheck
from tf_adasum.distribute.encoded_plan import with_codecs
from tf_adasum.distribute.equal_weights import EqualWeights
from tf_adasum.distribute.extended import AdasumExtended
from tf_adasum.distribute.own_values import OwnValues
from tf_adasum.distribute.policy import ReductionPlan, ReductionPolicy, RuleTest
from tf_adasum.distribute.sharded_input import agree_on_seed
from tf_adasum.distribute.stated_shares import check_alike, resolved
from tf_adasum.distribute.variables import native_variable, unique_id
from tf_adasum.keras_hooks.fit import quiet_ranks
from tf_adasum.keras_hooks.steps.optimizer_parts import strategy_of

_log = logging.getLogger("tf_adasum")


class AdasumStrategy(tf.distribute.Strategy):
    """Synchronous training on N = L_0 + .. + L_(P - 1) replicas: P processes, L_p devices in each.

    Build the model and its optimizer inside `scope()`, then call `model.fit`. Variables start
    with rank 0's values and stay equal on all ranks. An optimizer from `tf_adasum.wrap`
    combines the replicas by the rule of each variable; a plain one gets the sum of their gradients,
    which is the mean where losses are means over the batch.

    The batch size of the data is the global one: with L devices in each process, replica (p, l)
    gets sub-batch l * P + p of every batch; where processes have unlike numbers of devices, process
    p gets L_p / N of its rows, in the order of the processes. Create the strategy before the data:
    it gives all ranks rank 0's TensorFlow seed, so that they shuffle alike and each example is
    seen once per epoch.

    All ranks must make the same calls, with these rules:
    * Ranks other than 0 show no progress. Give callbacks to all ranks: rank 0 writes their files.
      What you write yourself, `model.save` after `fit` too, write on rank 0.
    * Logs are those of all replicas at the end of an epoch and of `evaluate`; during an epoch they
      are the rank's own: stop training by them as you like, but don't set a learning rate by them.
    * `BatchNormalization(synchronized=True)` keeps moving statistics equal; otherwise they are
      each replica's own in a step, and their mean from the end of an epoch on.
    * `tf.IndexedSlices` (gradients of embeddings) are exchanged as rows, unless the variable's
      reduction is none of adasum, mean and sum, or `local_reduction` comes first.
    * `jit_compile=True` compiles forward and backward pass; "auto" means no XLA here.

    Args:
        devices: names of this process's devices, such as `["CPU:0", "CPU:1"]`; None: all GPUs,
            or one GPU per rank where a machine runs several ranks, or the CPU.
        reductions: list of `(test, reduction)`; the first matching rule decides how a trainable
            variable is combined. A test is a regular expression searched for in the variable's
            Keras path, or a callable `(path, shape, dtype) -> bool`; a reduction is "adasum",
            "mean", "sum", "min", "max" or "product", or a `tf_adasum.Reduction`, which also says
            how the variable travels. Without a match: adasum.
        communicator: a `tf_adasum.Communicator`; None: all processes.
        bucket_bytes: the variables of a step travel in buckets of about this many bytes, the
            last layers first, while the backward pass still works on the others.
        local_reduction: how the replicas of one host are reduced where a variable's reduction is
            adasum: "adasum" (one tree over all replicas), or "sum" or "mean", whose results Adasum
            then combines across hosts. With one host the local reduction is the whole.
        check_every: after how many steps of `fit` the ranks compare 64-bit digests of all
            weights, an int >= 0; 0: only when `fit` and `evaluate` begin and `fit` ends. What
            differs ends the training on all ranks, with the variable's path and the rank.
        batch_share: which part of each global batch a rank trains on, where ranks are not equally
            fast: a positive number for each, as `[1, 3]`, the same list on all ranks, or
            "measured": at first equal parts for all replicas, and from each later epoch of `fit`
            on by the rows per second that a rank has computed, or "hostfile": what `share=` says
            of a rank's host in the file of `adasumrun --hostfile`. None: equal parts for all
            replicas, so that a rank has them by its number of devices. A replica of b of B rows
            counts N b / B, unless all parts are equal: a mean is that of all rows, for losses that
            are means of rows.

    Raises:
        ValueError: a rule is malformed or names an unknown reduction, `local_reduction` is
            unknown, `batch_share` has no positive number for each rank or differs between ranks,
            `bucket_bytes` is not positive, `check_every` is negative, or a device is none
            that this process has, or there twice.
        TypeError: `communicator` is no `Communicator`, or `bucket_bytes` or `check_every` no int.
        tf.errors.UnavailableError: the communicator was closed.

    Example:
        >>> import keras, numpy as np, tf_adasum
        >>> strategy = tf_adasum.AdasumStrategy(reductions=[("bias$", "mean")])
        >>> with strategy.scope():
        ...     model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        ...     model.compile(optimizer=tf_adasum.wrap(keras.optimizers.SGD(0.1)), loss="mse")
        >>> x, y = np.ones((64, 4)), np.zeros((64, 2))
        >>> history = model.fit(x, y, batch_size=32 * strategy.num_replicas_in_sync, verbose=0)
        >>> len(history.history["loss"])
        1

    Source: Maleki et al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021.
    """

    # MirroredExtended reads it; our exchange uses no TensorFlow collectives.
    _collective_key_base = 0

    def __init__(  # noqa: PLR0913 (each is a choice of its own)
        self,
        devices: Sequence[str] | None = None,
        reductions: Sequence[tuple[RuleTest, str]] | None = None,
        communicator: Communicator | None = None,
        bucket_bytes: int = DEFAULT_BUCKET_BYTES,
        local_reduction: str = "adasum",
        check_every: int = 0,
        *,
        batch_share: Sequence[float] | str | None = None,
    ):
        communicator = checked_group(communicator)
        check_stages("adasum", local_reduction)
        bucket_bytes = checked_int("bucket_bytes", bucket_bytes, 1, 2**63 - 1)
        check_every = checked_int("check_every", check_every, 0, NO_LIMIT)
        devices = own_devices(communicator) if devices is None else checked_devices(devices)
        self.reduction_policy = ReductionPolicy(reductions)
        batch_share = resolved(batch_share, communicator)
        self._decided: dict[str, tuple[str, str]] = {}
        self._said: set[str] = set()
        numbers = ReplicaNumbers.of_all(len(devices), communicator)
        ops = AdasumCrossDeviceOps(
            communicator, numbers, self._reduction_of, bucket_bytes, local_reduction
        )
        extended = AdasumExtended(self, devices, communicator, numbers, ops)
        extended.see_variable = self.reduction_policy.see
        check_alike(batch_share, communicator)
        given = batch_share is not None
        if numbers.are_unlike and not given:
            batch_share = numbers.counts
        if batch_share is not None:
            share = BatchShare(batch_share, communicator, numbers, local_reduction)
            extended.batch_share = ops.batch_share = share
        super().__init__(extended)
        self.equal_weights = EqualWeights(communicator)
        self.divergence_check = DivergenceCheck(communicator, check_every, numbers)
        self.own_values = OwnValues(communicator, numbers)
        keras_hooks.install()
        had_unlike_seeds = communicator.size > 1 and agree_on_seed(communicator)
        _tell_unlike(self, numbers, had_unlike_seeds, has_shares=given)
        if communicator.rank > 0:
            quiet_ranks.be_quiet()

    @property
    def batch_shares(self) -> list[float]:
        """The part of each batch that each rank trains on; their sum is 1."""
        own, number = self.extended.batch_share, self.extended.communicator.size
        return [1 / number] * number if own is None else own.shares

    @functools.cached_property
    @override
    def cluster_resolver(self) -> tf.distribute.cluster_resolver.ClusterResolver:
        """Each rank as a worker, whose `task_id` is the rank, as in multi-worker scripts.

        Example:
            >>> import tf_adasum
            >>> resolver = tf_adasum.AdasumStrategy().cluster_resolver
            >>> resolver.task_type, resolver.task_id, resolver.cluster_spec().num_tasks("worker")
            ('worker', 0, 1)
        """
        return resolver_of(self.extended.communicator)

    def reduction_plan(self, models) -> ReductionPlan:
        """Returns, and prints on rank 0, which trainable variable gets which reduction.

        Args:
            models: a built Keras model, or a list of models that train together.

        Returns:
            A `ReductionPlan`: a list of `PlanRow`, with codecs and bytes where the optimizers of
            the models are tf_adasum's.

        Raises:
            ValueError: a model is not built, or a rule matches no variable.
            TypeError: something is no Keras model.

        Example:
            >>> import keras, tf_adasum
            >>> strategy = tf_adasum.AdasumStrategy(reductions=[("bias$", "mean")])
            >>> with strategy.scope():
            ...     layers = [keras.Input((4,)), keras.layers.Dense(2, name="dense")]
            ...     model = keras.Sequential(layers, name="net")
            >>> plan = strategy.reduction_plan(model)
            variable          shape   dtype    reduction
            ----------------  ------  -------  ---------
            net/dense/kernel  (4, 2)  float32  adasum
            net/dense/bias    (2,)    float32  mean
            >>> plan[1].reduction
            'mean'
        """
        models = models if isinstance(models, (list, tuple)) else [models]
        for model in models:
            if not isinstance(model, keras.Layer):
                advice = "Pass models that were built in this strategy's scope()."
                raise TypeError(refusal("a Keras model or a list of them", shown(model), advice))
            if not model.built:
                advice = "Give it an Input layer, or call model.build(shape) first."
                received = f"{model.name!r}, not built"
                raise ValueError(refusal("models that have their variables", received, advice))
        rows = iter(self.register_variables([v for m in models for v in m.trainable_variables]))
        plan = ReductionPlan()
        for model in models:
            own = itertools.islice(rows, len(model.trainable_variables))
            plan += with_codecs(own, model, self.extended.communicator.size)
        if self.extended.communicator.rank == 0:
            print(plan)
        return plan

    def register_variables(self, variables: Sequence[keras.Variable]) -> ReductionPlan:
        """Decides the reduction of each variable by its Keras path; called on the first step.

        Args:
            variables: trainable Keras variables (or `tf.Variable`s, known by their names).

        Returns:
            The `ReductionPlan` of these variables.

        Raises:
            ValueError: a rule matches no variable.
        """
        plan = self.reduction_policy.assign([_described(variable) for variable in variables])
        for variable, row in zip(variables, plan):
            key = unique_id(variable)
            if key not in self._decided:  # models may come and go
                weakref.finalize(native_variable(variable), self._decided.pop, key, None)
            self._decided[key] = (row.path, row.reduction)
        return plan

    def check_made_here(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Raises RuntimeError for an optimizer that was made outside of this strategy's scope."""
        made_under = strategy_of(optimizer)
        if made_under is not self:
            outside = not isinstance(made_under, AdasumStrategy)
            expected = f"the optimizer {optimizer.name!r} of the AdasumStrategy that applies it"
            received = f"one created {'outside of its scope()' if outside else 'under another one'}"
            advice = "Create and compile it inside the scope()."
            raise RuntimeError(refusal(expected, received, advice))

    def say_once(self, message: str) -> None:
        """Logs `message` on rank 0, the first time it is said."""
        if self.extended.communicator.rank == 0 and message not in self._said:
            self._said.add(message)
            _log.warning(message)

    def _reduction_of(self, variable: tf.Variable) -> tuple[str, str]:
        decided = self._decided.get(unique_id(variable))
        if decided is not None:
            return decided
        # A variable that no wrapped optimizer announced, of somebody's own training loop.
        description = _described(variable)
        return description[0], self.reduction_policy.reduction(*description)


def _described(variable) -> tuple[str, tuple[int, ...], str]:
    # Another attribute of a distributed variable would be looked for on its value, which is read.
    is_keras = isinstance(variable, keras.Variable)
    path = variable.path if is_keras else variable.name.split(":")[0]
    dtype = variable.dtype if isinstance(variable.dtype, str) else variable.dtype.name
    return path, tuple(variable.shape), dtype


def _tell_unlike(
    strategy: AdasumStrategy, numbers: ReplicaNumbers, had_unlike_seeds: bool, has_shares: bool
) -> None:
    if had_unlike_seeds:
        rank_0 = strategy.extended.communicator.in_words(0)
        strategy.say_once(
            f"Ranks had unlike TensorFlow seeds: all go on with {rank_0}'s, "
            "so that they shuffle alike. Replicas draw numbers of their own all the same."
        )
    if numbers.are_unlike:
        parts = "as batch_share says" if has_shares else "by its number of devices"
        strategy.say_once(
            f"Ranks have unlike numbers of devices, {shown(numbers.counts)}: each of the "
            f"{numbers.total} replicas is a leaf, and a rank has rows of each batch {parts}."
        )
