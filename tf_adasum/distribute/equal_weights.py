"""Ranks that train one model hold equal weights; what one rank alone loads or sets is found here.

Every rank takes a digest of what must be equal, in one pass over it, and one small message tells
all ranks all digests, so that all decide alike.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.refusals import refusal
from tf_adasum.distribute.digests import (
    digest,
    digest_of_all,
    gather_digests,
    variables_that_agree,
)
from tf_adasum.distribute.own_variables import learning_rate_of, steps_taken
from tf_adasum.distribute.variables import broadcast_variables, first_copy, native_variable
from tf_adasum.keras_hooks.core.said_once import SaidOnce
from tf_adasum.keras_hooks.steps.model_optimizers import optimizers_of

_log = logging.getLogger("tf_adasum")


class _Row(NamedTuple):
    """What a rank tells the others; each field is an int64.

    Attributes:
        kind: digest of the number, shapes and dtypes of the variables, and which are trained.
        now: digest of their values.
        common: the digest when all ranks' were last equal; 0 if they never were compared.
        steps_taken: of a round of local steps, in which weights differ by design.
        epoch: where `fit` begins.
        asked_epoch: where the caller of `fit` wants it to begin.
        restored: whether a callback restored a training on this rank.
    """

    kind: int
    now: int
    common: int
    steps_taken: int
    epoch: int
    asked_epoch: int
    restored: int

    @property
    def state(self) -> tuple[int, int]:
        """What must be equal on all ranks, but within a round of local steps."""
        return self.now, self.steps_taken


class EqualWeights:
    """Compares the weights of models across the ranks of a strategy.

    Args:
        communicator: the `Communicator` of the strategy.
    """

    def __init__(self, communicator: Communicator):
        self._communicator = communicator
        self._common: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._said = SaidOnce()

    def check(
        self,
        model: keras.Model,
        when: str,
        epoch: int = 0,
        asked_epoch: int = 0,
        restored: bool = False,
    ) -> int:
        """Makes sure that all ranks hold equal weights; collective, one message if they do.

        Ranks that differ go on with rank 0's values if rank 0 changed since all were equal, or if
        they never were compared, and rank 0 says so in one line; of what evaluate finds, once for
        each model. What a callback restored on rank 0 all ranks take over, whatever they hold.

        Args:
            model: a built model, with or without an optimizer.
            when: what begins or ends, for the messages.
            epoch: the first of this rank, which a callback may have restored, if `fit` begins.
            asked_epoch: what `fit` was called with.
            restored: whether a callback restored the model on this rank.

        Returns:
            The first epoch of all ranks: rank 0's.

        Raises:
            ValueError: on all ranks, if only others than rank 0 changed, if the models are unlike,
                or if epochs are.
        """
        variables = variables_that_agree(model, frozen_too=True)
        digests = [digest(first_copy(native_variable(variable))) for variable in variables]
        kind = digest_of_all([(v.dtype, tuple(v.shape), v.trainable) for v in variables])
        common = self._common.get(model, 0)
        taken = steps_taken(model)
        mine = _Row(kind, digest_of_all(digests), common, taken, epoch, asked_epoch, restored)
        rows = [_Row(*map(int, row)) for row in gather_digests(mine, self._communicator, "weights")]
        self._check_alike(rows, when)
        in_round = taken > 0 and all(row.steps_taken == taken for row in rows)
        if rows[0].restored:
            self._share_what_is_restored(model, rows[0].epoch, when)
            self._common[model] = rows[0].now
        elif not in_round:
            if any(row.state != rows[0].state for row in rows):
                self._mend(model, variables, digests, rows, when)
            self._common[model] = rows[0].now
        return rows[0].epoch

    def _check_alike(self, rows: Sequence[_Row], when: str) -> None:
        first, name_of = self._communicator.in_words(0), self._communicator.in_words
        others = [rank for rank, row in enumerate(rows) if row.kind != rows[0].kind]
        if others:
            received = (
                f"variables on {name_of(*others)} whose number, shapes or dtypes are not "
                f"{first}'s, or frozen ones that are not there"
            )
            advice = "Build, freeze and compile alike on all ranks."
            raise ValueError(refusal(f"the same model on all ranks when {when}", received, advice))
        if rows[0].restored:
            return
        others = [rank for rank, row in enumerate(rows) if row.epoch != rows[0].epoch]
        # Keras takes what a callback restored before what was asked for, unless that is 0.
        if others and not rows[0].epoch and any(rows[rank].asked_epoch for rank in others):
            expected = f"the same initial_epoch on all ranks when {when}"
            received = f"0 on {first}, and others on {name_of(*others)}"
            raise ValueError(refusal(expected, received, "Call fit with the same initial_epoch."))
        if others and self._communicator.rank == 0:
            _log.warning(
                "%s: all ranks begin with epoch %d as %s does, also %s.",
                *(when, rows[0].epoch, first, name_of(*others)),
            )

    def _share_what_is_restored(self, model: keras.Model, epoch: int, when: str) -> None:
        """Also what is a replica's own: a callback may have restored another file there."""
        broadcast_variables(model, 0, self._communicator)
        if self._communicator.rank == 0:
            _log.warning(
                "%s: all ranks begin with epoch %d and the weights that %s restored.",
                *(when, epoch, self._communicator.in_words(0)),
            )

    def _mend_rates(self, rates, table: np.ndarray, when: str) -> None:
        """Gives all ranks rank 0's learning rates; no cause to end a training that is done."""
        broadcast_variables(rates, 0, self._communicator)
        if self._communicator.rank == 0:
            name_of = self._communicator.in_words
            others = [rank for rank, row in enumerate(table) if (row != table[0]).any()]
            _log.warning(
                "%s: %r differed on %s from %s's, with which all go on. Give all ranks the "
                "same callbacks: unlike rates let ranks take unlike steps.",
                *(when, rates[0].path, name_of(*others), name_of(0)),
            )

    def _mend(self, model, variables, digests, rows, when) -> None:
        """Gives all ranks rank 0's values, or raises on all ranks where the cause is not plain."""
        table = gather_digests(digests, self._communicator, "variables")
        differing = [i for i in range(len(digests)) if len(set(table[:, i])) > 1]
        rates = [i for i in differing if id(variables[i]) in _rates(model)]
        if rates:
            self._mend_rates([variables[i] for i in rates], table[:, rates], when)
            differing = [i for i in differing if i not in rates]
            if not differing and len({row.steps_taken for row in rows}) == 1:
                return
        others = [r for r, row in enumerate(rows) if row.state != rows[0].state]
        first = variables[differing[0]].path if differing else "steps_since_sync"
        what = f"{first!r}" + (f" and {len(differing) - 1} more" if len(differing) > 1 else "")
        root, there = self._communicator.in_words(0), self._communicator.in_words(*others)
        if rows[0].now == rows[0].common and len({row.common for row in rows}) == 1:
            received = (
                f"{what} of {len(variables)} variables differ on {there}, while {root}'s are as "
                "all ranks had them"
            )
            advice = (
                f"Load or set weights on all ranks or on {root}, or call "
                "tf_adasum.broadcast_variables with the rank whose weights count."
            )
            raise ValueError(refusal(f"equal weights on all ranks when {when}", received, advice))
        broadcast_variables(model, 0, self._communicator)
        if self._communicator.rank == 0:
            message = (
                f"{when}: {what} of {len(variables)} variables differed on {there} from {root}'s, "
                "with which all go on. Load or set weights on all ranks, and give all ranks the "
                "same callbacks, or call tf_adasum.broadcast_variables; a train_step that changes "
                "weights for a while must assign them back, not subtract."
            )
            if when.startswith("evaluate"):  # fit may do it in every epoch
                self._said.warn(model, message)
            else:
                _log.warning(message)


def _rates(model: keras.Model) -> set[int]:
    return {id(learning_rate_of(optimizer)) for optimizer in optimizers_of(model)}
