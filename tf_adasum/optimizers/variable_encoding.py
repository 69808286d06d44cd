"""How what is exchanged of an optimizer's variables travels, and what encoding has lost of them."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

from tf_adasum.collectives.compressed_allreduce import REDUCTIONS, Lost
from tf_adasum.collectives.compression import Compression
from tf_adasum.collectives.compression.compression import work_dtype
from tf_adasum.collectives.compression.state import num_part_elements
from tf_adasum.collectives.refusals import refusal
from tf_adasum.distribute.policy import PlanRow
from tf_adasum.distribute.strategy import AdasumStrategy
from tf_adasum.distribute.variables import native_variable, unique_id
from tf_adasum.keras_hooks.core.plain_variable import make_plain_zeros
from tf_adasum.optimizers.plan_checks import check_flat


class Residual:
    """What encoding has lost of a variable; it looks like one that TensorFlow distributes.

    In host memory on every device, where the allreduce changes it in place.

    Args:
        values: a variable for each local replica.
    """

    def __init__(self, values: Sequence[tf.Variable]):
        self.values = tuple(values)
        self.name, self.shape, self.dtype = values[0].name, values[0].shape, values[0].dtype


class VariableEncoding:
    """The residuals of an optimizer's variables, each replica's own.

    They are no variables of Keras': a model's file holds what one replica has, and N replicas that
    began with it would add what it lost N times. `callbacks.BackupAndRestore` keeps all of them.

    Args:
        compression: how they travel where no rule says otherwise; None: as they are.
        plain_for: the setting of an optimizer that lets none travel encoded; None: there is none.
    """

    def __init__(self, compression: Compression | None, plain_for: str | None = None):
        if compression is not None:
            Compression.check(compression)
        self.compression = compression
        self._plain_for = plain_for
        self._codecs: dict[str, Compression] = {}
        self._to_be_made: list[tuple[AdasumStrategy, tf.Variable]] = []
        self._lost: dict[str, tuple[Residual, Residual]] = {}

    def build(
        self,
        strategy: tf.distribute.Strategy,
        variables: Sequence[keras.Variable],
        reductions: Sequence[str],
    ) -> None:
        """Makes the residuals of the variables that travel encoded; none where there are no peers.

        In a replica, as in a first step of one's own loop, they are made by the first exchange.

        Args:
            strategy: in whose scope the optimizer was made.
            variables: its trainable variables.
            reductions: of each; those that are a `Reduction` may say how it travels.
        """
        if not isinstance(strategy, AdasumStrategy) or strategy.num_replicas_in_sync == 1:
            return
        for variable, reduction in zip(map(native_variable, variables), reductions):
            codec = self.chosen(variable.shape.num_elements(), variable.dtype.name, reduction)
            if codec is not None:
                self._codecs[unique_id(variable)] = codec
                self._to_be_made.append((strategy, variable))
        if self._codecs and strategy.extended.communicator.size == 1:
            strategy.say_once(
                "compression changes nothing where all replicas are in one process: nothing "
                "travels. Start several ranks by adasumrun to see what it does."
            )
        context = tf.distribute.get_replica_context()
        if context is None or context.strategy is not strategy:
            self._make()

    def _make(self) -> None:
        for strategy, variable in self._to_be_made:
            num_ranks = strategy.extended.communicator.size
            num_local = strategy.extended.num_local_replicas
            dtype = work_dtype(variable.dtype.name)
            of_tensor = [make_plain_zeros(variable.shape, dtype) for _ in range(num_local)]
            num_of_part = num_part_elements(variable.shape.num_elements(), num_ranks)
            of_part = make_plain_zeros([num_of_part], dtype)
            # A rank's replicas share its part.
            self._lost[unique_id(variable)] = Residual(of_tensor), Residual([of_part] * num_local)
        self._to_be_made = []

    def chosen(self, num_elements: int, dtype: str, reduction: str) -> Compression | None:
        """Returns how a variable with this reduction travels; None: as it is."""
        codec = getattr(reduction, "compression", None) or self.compression
        return codec if codec is not None and codec.encodes_elements(num_elements, dtype) else None

    def check_plan(self, rows: Sequence[PlanRow], local_reduction: str) -> None:
        """Raises ValueError for a variable that would travel encoded, and can't."""
        for row in rows:
            num_elements = tf.TensorShape(row.shape).num_elements()
            codec = self.chosen(num_elements, row.dtype, row.reduction)
            if codec is None:
                continue
            if self._plain_for is not None:
                expected = f"variables to travel as they are with {self._plain_for}"
                received = f"a rule with compression={codec} for {row.path!r}"
                advice = "Leave the compression out of the strategy's rule, or the setting out."
                raise ValueError(refusal(expected, received, advice))
            if row.reduction not in REDUCTIONS:
                expected = f"a reduction among {list(REDUCTIONS)} for what travels encoded"
                received = f"{str(row.reduction)!r} for {row.path!r}, and {type(codec).__name__}"
                advice = "Change the strategy's rule for it, or leave compression out."
                raise ValueError(refusal(expected, received, advice))
            check_flat(f"compression={type(codec).__name__}", [row], local_reduction)

    @property
    def variables(self) -> list[Residual]:
        """All residuals: of the replicas, and of this rank's parts of the results."""
        return [variable for pair in self._lost.values() for variable in pair]

    def compression_of(self, variable: tf.Variable) -> Compression | None:
        """Returns how what is reduced to a variable travels; None: as it is."""
        return self._codecs.get(unique_id(variable))

    def lost_of(self, variables: Sequence[tf.Variable]) -> Lost:
        """Returns where what is lost of them is kept; in cross-replica context."""
        self._make()
        pairs = [self._lost[unique_id(variable)] for variable in variables]
        of_tensors = [residual.values for residual, _ in pairs]
        return Lost(list(zip(*of_tensors)), [of_part.values[0] for _, of_part in pairs])
