"""Places in Keras and TensorFlow that must know about replicas: a file each, by subject."""

from __future__ import annotations

import functools

from tf_adasum.keras_hooks.compiled import (
    compiled_calls,
    compiled_exchanges,
    compiled_losses,
    compiled_steps,
    compiled_train_steps,
)
from tf_adasum.keras_hooks.core import added_losses, calls
from tf_adasum.keras_hooks.data import (
    batch_shares,
    data_position,
    ended_iterators,
    host_iterators,
    image_iterators,
    next_batch,
    num_batches,
    reused_generators,
    shuffles,
    symbolic_build,
    unlike_arrays,
    whole_predictions,
)
from tf_adasum.keras_hooks.files import (
    callback_files,
    saved_attributes,
    whole_checkpoints,
    written_files,
)
from tf_adasum.keras_hooks.fit import (
    begun_fits,
    callback_turns,
    common_logs,
    common_stops,
    ended_fits,
    lone_fits,
    unlike_settings,
)
from tf_adasum.keras_hooks.idle import empty_batches, idle_assignments, idle_gradients, idle_sums
from tf_adasum.keras_hooks.metrics import metrics_scope, returned_metrics
from tf_adasum.keras_hooks.randomness import drawn_seeds, global_seeds, operation_seeds, seeds
from tf_adasum.keras_hooks.steps import (
    earlier_gradients,
    held_optimizers,
    loss_scale,
    losses,
    optimizer_scope,
    output_losses,
    plain_optimizer,
    step_count,
)
from tf_adasum.keras_hooks.strategy import one_scope, values_of_each
from tf_adasum.keras_hooks.variables import (
    batch_statistics,
    equal_weights,
    made_variables,
    own_values,
    python_numbers,
)

_HOOKS = (
    added_losses,
    # Before `empty_batches`, which makes up a row: what is installed first sees a batch first.
    batch_shares,
    batch_statistics,
    # Before those that ask other ranks when training begins.
    begun_fits,
    calls,
    callback_files,
    # Before those that ask other ranks when training ends.
    callback_turns,
    common_logs,
    common_stops,
    compiled_calls,
    compiled_exchanges,
    compiled_losses,
    compiled_steps,
    compiled_train_steps,
    # Around the steps that are compiled, and inside of what others put around a step.
    earlier_gradients,
    data_position,
    drawn_seeds,
    empty_batches,
    ended_fits,
    ended_iterators,
    equal_weights,
    global_seeds,
    held_optimizers,
    host_iterators,
    idle_assignments,
    idle_gradients,
    idle_sums,
    image_iterators,
    lone_fits,
    loss_scale,
    losses,
    made_variables,
    next_batch,
    num_batches,
    one_scope,
    operation_seeds,
    optimizer_scope,
    output_losses,
    own_values,
    plain_optimizer,
    python_numbers,
    # After those that put something around a step: it must see the model's own.
    returned_metrics,
    reused_generators,
    saved_attributes,
    seeds,
    shuffles,
    step_count,
    symbolic_build,
    unlike_arrays,
    unlike_settings,
    metrics_scope,
    values_of_each,
    whole_checkpoints,
    whole_predictions,
    written_files,
)


@functools.cache
def install() -> None:
    """Installs the hooks, once.

    Without an `AdasumStrategy` in scope they change no result; `ended_iterators` and
    `python_numbers` act under other strategies of the process too, whose iterators then end in the
    background, and whose replicated scalars are Python numbers.
    """
    for hook in _HOOKS:
        hook.install()
