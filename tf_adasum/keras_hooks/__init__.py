"""Places in Keras and TensorFlow that must know about replicas; each in a file of its own."""

from __future__ import annotations

import functools

from tf_adasum.keras_hooks import (
    batch_shares,
    batch_statistics,
    begun_fits,
    callback_files,
    callback_turns,
    calls,
    common_logs,
    common_stops,
    compiled_calls,
    compiled_exchanges,
    compiled_losses,
    compiled_steps,
    compiled_train_steps,
    data_position,
    drawn_seeds,
    earlier_gradients,
    empty_batches,
    ended_fits,
    ended_iterators,
    equal_weights,
    global_seeds,
    host_iterators,
    idle_assignments,
    idle_gradients,
    idle_sums,
    image_iterators,
    lone_fits,
    loss_scale,
    losses,
    made_variables,
    metrics_scope,
    next_batch,
    num_batches,
    one_scope,
    operation_seeds,
    optimizer_scope,
    output_losses,
    own_values,
    plain_optimizer,
    python_numbers,
    returned_metrics,
    reused_generators,
    saved_attributes,
    seeds,
    shuffles,
    step_count,
    symbolic_build,
    unlike_arrays,
    unlike_settings,
    values_of_each,
    whole_checkpoints,
    whole_predictions,
    written_files,
)

_HOOKS = (
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
