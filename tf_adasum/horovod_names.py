"""What stands for a name of Horovod's: a script that was moved here asks for it by that name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

_GROUPS = "tf_adasum.world().split(color), passed as communicator="
_NOT_NEEDED = "nothing, leave it out"
_BY_MPI = "mpi4py over the same ranks, MPI.COMM_WORLD"
_BY_NAME = "the reduction's name, as in tf_adasum.allreduce(x, {!r})"

OF_MODULE: Mapping[str, str] = {
    "init": _NOT_NEEDED,
    "shutdown": _NOT_NEEDED,
    "is_initialized": _NOT_NEEDED,
    "join": _NOT_NEEDED,
    "DistributedOptimizer": "tf_adasum.wrap(optimizer)",
    "DistributedGradientTape": "tf_adasum.allreduce(tape.gradient(...))",
    "Adasum": _BY_NAME.format("adasum"),
    "Average": _BY_NAME.format("mean"),
    "Sum": _BY_NAME.format("sum"),
    "Min": _BY_NAME.format("min"),
    "Max": _BY_NAME.format("max"),
    "Product": _BY_NAME.format("product"),
    "Compression": "tf_adasum.wrap(optimizer, compression=tf_adasum.compression.Float16())",
    "grouped_allreduce": "tf_adasum.allreduce([x, y])",
    "grouped_allgather": "tf_adasum.allgather([x, y])",
    "grouped_reducescatter": "tf_adasum.reduce_scatter([x, y])",
    "reducescatter": "tf_adasum.reduce_scatter(x)",
    "broadcast_object": _BY_MPI,
    "allgather_object": _BY_MPI,
    "SyncBatchNormalization": "keras.layers.BatchNormalization(synchronized=True)",
    "ProcessSet": _GROUPS,
    "add_process_set": _GROUPS,
    "global_process_set": "tf_adasum.world()",
    "elastic": "adasumrun --max-restarts=N and tf_adasum.callbacks.BackupAndRestore",
    "broadcast_global_variables": "tf_adasum.broadcast_variables(model)",
    "load_model": "keras.models.load_model(path)",
    "start_timeline": "adasumrun --timeline=FILE",
    "stop_timeline": _NOT_NEEDED,
    "remove_process_set": "close() of what tf_adasum.world().split(color) returned",
    "cross_rank": "the host's place in tf_adasum.world().hosts",
    "cross_size": "len(tf_adasum.world().hosts)",
    "mpi_built": _NOT_NEEDED,
    "mpi_enabled": _NOT_NEEDED,
    "mpi_threads_supported": _NOT_NEEDED,
    "nccl_built": _NOT_NEEDED,
    "gloo_built": _NOT_NEEDED,
    "BroadcastGlobalVariablesHook": "tf_adasum.broadcast_variables(model)",
    "PartialDistributedOptimizer": "tf_adasum.wrap(optimizer), for all variables",
}
OF_CALLBACKS: Mapping[str, str] = {
    "BroadcastGlobalVariablesCallback": _NOT_NEEDED,
    "MetricAverageCallback": _NOT_NEEDED,
    "LearningRateWarmupCallback": "tf_adasum.callbacks.LearningRateWarmup(rate, num_steps)",
    "LearningRateScheduleCallback": "keras.callbacks.LearningRateScheduler(schedule)",
    "BestModelCheckpoint": "keras.callbacks.ModelCheckpoint(path, save_best_only=True)",
}


def refusing(module: str, names: Mapping[str, str]) -> Callable[[str], NoReturn]:
    """Returns a module's `__getattr__` for names that it lacks: it says what stands for Horovod's.

    Args:
        module: its name.
        names: Horovod's names, with what stands for each here.

    Example:
        >>> import tf_adasum as hvd
        >>> hvd.init()
        Traceback (most recent call last):
        AttributeError: module 'tf_adasum' has no attribute 'init'. In place of Horovod's: ...
    """

    def missing(name: str) -> NoReturn:
        said = f"module {module!r} has no attribute {name!r}"
        if name in names:
            said += f". In place of Horovod's: {names[name]} (docs/horovod.md)"
        raise AttributeError(said)

    return missing
