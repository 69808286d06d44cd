"""TensorFlow's extended of one process, with a check of what we override and read of it."""

from __future__ import annotations

from tensorflow.python.distribute import mirrored_strategy

from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads

require_hooks(mirrored_strategy, "MirroredExtended")

MirroredExtended = mirrored_strategy.MirroredExtended

# What `ShardedInputExtended` overrides.
require_hooks(
    MirroredExtended,
    "_distribute_datasets_from_function",
    "_experimental_distribute_dataset",
    "_experimental_distribute_values_from_function",
    "_input_workers_with_options",
)
# What `AdasumExtended` overrides.
require_hooks(
    MirroredExtended,
    "_batch_reduce_to",
    "_broadcast_to",
    "_call_for_each_replica",
    "_create_variable",
    "_gather_to_implementation",
    "_get_cross_device_ops",
    "_get_local_replica_id",
    "_get_replica_id_in_sync_group",
    "_get_variable_creator_initial_value",
    "_in_multi_worker_mode",
    "_make_collective_ops_with_fallbacks",
    "_num_replicas_in_sync",
    "_reduce_to",
    "_use_merge_call",
    "should_checkpoint",
    "should_save_summary",
)
# What both call and read.
require_hooks(MirroredExtended, "_container_strategy", "_local_results")
require_reads(MirroredExtended, "__init__", "_communication_options", "_cross_device_ops")
require_reads(MirroredExtended, "_initialize_single_worker", "_devices")
require_reads(MirroredExtended, "_input_workers_with_options", "_input_workers_devices")
