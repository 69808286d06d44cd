"""`fit` and `evaluate` begin, and `fit` ends, with equal weights on all ranks.

The ranks compare after the callbacks' turn: BackupAndRestore loads weights when training begins,
EarlyStopping sets them when it ends. `AdasumStrategy(check_every=K)` compares in between.
"""

from __future__ import annotations

from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads

require_hooks(TensorFlowTrainer, "distribute_strategy", "fit")
require_reads(TensorFlowTrainer, "fit", "_initial_epoch")


def install() -> None:
    """Lets `fit` and `evaluate` compare the weights of ranks."""
    calls.after("on_train_begin", lambda call, _: _compare(call, "fit begins"))
    calls.after("on_test_begin", lambda call, _: _compare(call, "evaluate begins"))
    calls.after("on_train_end", lambda call, _: _compare(call, "fit ends"))
    calls.after("on_train_begin", lambda call, _: _forget_steps_of_failure(call))
    calls.after("on_train_batch_end", lambda call, _: _count_steps(call))


def _compare(call: calls.Call, when: str) -> None:
    model = call.model
    epoch = model._initial_epoch or call.initial_epoch
    restored, call.restored = call.restored, False
    agreed = model.distribute_strategy.equal_weights.check(
        model, when, epoch, call.initial_epoch, restored
    )
    if agreed != epoch:
        model._initial_epoch = agreed


def _count_steps(call: calls.Call) -> None:
    call.model.distribute_strategy.divergence_check.count_steps(call.model)


def _forget_steps_of_failure(call: calls.Call) -> None:
    def ended(error: type | None, *_) -> None:
        if error is not None:
            call.model.distribute_strategy.divergence_check.forget_steps()

    call.at_end.push(ended)
