"""A training's variables, saved to a file by rank 0 and restored from it on all ranks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras.src.backend.tensorflow.trainer import TFEpochIterator

from tf_adasum.callbacks.built_optimizers import (
    build_optimizers,
    names_of_optimizers,
    weights_of_optimizers,
)
from tf_adasum.callbacks.replaced_file import remove_partial
from tf_adasum.callbacks.replica_state import ReplicaState, Value
from tf_adasum.callbacks.saved_layout import MOVE_AWAY, check_alike, layout, saved_layout
from tf_adasum.callbacks.training_file import TrainingReader, TrainingWriter
from tf_adasum.collectives.gathered import gather_json
from tf_adasum.collectives.refusals import refusal
from tf_adasum.distribute.own_variables import (
    StateVariable,
    metric_variables,
    residual_variables,
    state_variables,
)
from tf_adasum.distribute.variables import has_weights, local_copies, native_variable
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.data import symbolic_build
from tf_adasum.keras_hooks.randomness import global_seeds

# What is raised where the disk is full, the folder not there, the file cut off, or damaged.
_FAILURES = (OSError, RuntimeError, KeyError, ValueError, TypeError)


class _Backup(NamedTuple):
    """A file that a model is restored from.

    Attributes:
        path: of the file.
        reader: on rank 0; None elsewhere.
        header: of the file, on all ranks.
        model: what is restored.
        state: brings values to its replicas.
    """

    path: str
    reader: TrainingReader | None
    header: dict[str, Any]
    model: keras.Model
    state: ReplicaState


def save_training(
    path: str, model: keras.Model, header: dict[str, Any], slots: str, in_epoch: bool
) -> None:
    """Saves what a training goes on from; collective. A failure leaves the file as it was.

    Args:
        path: the file, of which rank 0's counts.
        model: a Keras model that has its weights and those of its optimizers that are in use.
        header: what else `restore_training` is to return, of JSON's types.
        slots: "per_rank" or "mean", as for `BackupAndRestore`.
        in_epoch: whether to save what the metrics have counted.

    Raises:
        OSError: on all ranks, if rank 0 can't write.
    """
    state = ReplicaState(model)
    seeds = global_seeds.existing()
    copies = 0 if seeds is None else len(local_copies(native_variable(seeds)))
    # What rank 0 has counts: a rank may have drawn a number by itself.
    copies = _of_rank_0(model, copies, "whether keras.random was drawn from")
    groups = {
        "state": _saved_variables(model, copies),
        "metrics": metric_variables(model) if in_epoch else [],
        "residuals": residual_variables(model),
    }
    numbers = {"num_replicas": state.num_replicas, "counts": state.counts}
    header = {**header, **numbers, "seeds": copies, "optimizers": weights_of_optimizers(model)}
    header["optimizer_names"] = names_of_optimizers(model)
    failure = _write(path, header, groups, state, slots)
    failure = _of_rank_0(model, failure, "whether a backup was written")
    if failure:
        received = f"{failure.rstrip('.')}; what was saved there before is left as it was"
        advice = "Make room for it or give another backup_dir."
        raise OSError(refusal(f"to write {path} on {_root(model)}", received, advice))


def _write(
    path: str,
    header: dict[str, Any],
    groups: dict[str, list[StateVariable]],
    state: ReplicaState,
    slots: str,
) -> str:
    """Collects all values, and writes them on rank 0; returns why that failed, "" if it did not."""
    with contextlib.ExitStack() as stack:
        writer, failure = _tried(TrainingWriter, path) if state.is_root else (None, "")
        if writer is not None:
            stack.callback(writer.abandon)
        for group, each in ((group, each) for group, listed in groups.items() for each in listed):
            value = state.collect(each)  # also after a failure: the others take part
            if writer is not None and not failure:
                _, failure = _tried(_add, writer, group, each.path, value, slots)
        if writer is not None and not failure:
            _, failure = _tried(writer.finish, header)
    return failure


def _add(writer: TrainingWriter, group: str, path: str, value: Value, slots: str) -> None:
    writer.add(group, path, _as_wanted(value, slots))


def _tried(function: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    """What it returns, and ""; after a failure None, and what is told of it."""
    try:
        return function(*arguments), ""
    except _FAILURES as error:
        return None, str(error)


def restore_training(
    path: str, model: keras.Model, iterator: TFEpochIterator
) -> tuple[dict[str, Any], list[list]] | None:
    """Restores what `save_training` saved, and removes what a killed one left; collective.

    Args:
        path: the file, of which rank 0's counts; others need not see it.
        model: the same model, with its weights, on any number of replicas.
        iterator: that of `fit`, over the data to train on.

    Returns:
        The header, and what is to be assigned to metrics when the epoch begins: a list of
        variables and values; None if there is no file.

    Raises:
        OSError: on all ranks, if rank 0 can't read the file, or not all of it: what was read
            before is restored then.
        ValueError: on all ranks, if it is another model's, or the model has no weights yet.
    """
    state = ReplicaState(model)
    with contextlib.ExitStack() as stack:
        reader, answer = None, {}
        if state.is_root:
            remove_partial(path)
        if state.is_root and os.path.exists(path):
            try:
                reader = TrainingReader(path)
                stack.callback(reader.close)
                answer = {"header": reader.header}
            except _FAILURES as error:
                answer = {"failure": str(error)}
        answer = _of_rank_0(model, answer, "what a backup holds")
        if "failure" in answer:
            raise _unreadable(path, model, answer["failure"])
        if not answer:
            return None
        header = answer["header"]
        _build(model, path, header)
        variables = _saved_variables(model, header.get("seeds", 0))
        check_alike(header["state"], variables, path, model)
        backup = _Backup(path, reader, header, model, state)
        _assign(backup, "state", variables)
        _assign_residuals(backup)
        return header, _metrics(backup, iterator)


def _unreadable(path: str, model: keras.Model, failure: str) -> OSError:
    expected = f"a backup in {path} on {_root(model)}, complete as this version of tf_adasum "
    return OSError(refusal(expected + "writes it", failure.rstrip("."), MOVE_AWAY))


def _build(model: keras.Model, path: str, header: dict[str, Any]) -> None:
    """The slots must be there before they are restored. Under a strategy `fit` built the rest."""
    if not has_weights(model):
        expected = f"a model that has its weights, to restore {path} into it"
        advice = "Give it, or each of its layers that are models, an Input layer, or call build "
        raise ValueError(refusal(expected, f"{model.name!r}, not built", advice + "first."))
    if "optimizers" in header:
        build_optimizers(model, header["optimizers"])
    elif model.optimizer is not None and not model.optimizer.built:  # an older file
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_variables)


def _saved_variables(model: keras.Model, copies: int) -> list[StateVariable]:
    """The training's, and the state of `keras.random` if there are `copies` of it on rank 0.

    A generator that was made in the strategy's scope has one for each replica, which ranks that are
    seeded unlike keep as their own.
    """
    variables = state_variables(model)
    if copies:
        with model.distribute_strategy.scope():
            state = native_variable(global_seeds.made())
        # As all ranks must answer alike, also those with one replica where others have several.
        is_own = max(ReplicaState(model).counts) == 1 or hasattr(state, "values")
        name = "state of keras.random"
        variables.append(StateVariable(name, "keras.random", state, is_own))
    return variables


def _as_wanted(value: Value, slots: str) -> Value:
    return Value(value.common(), False) if slots == "mean" else value


def _assign(backup: _Backup, group: str, variables: list[StateVariable]) -> None:
    """Each replica gets its own value where there are as many as then, else all the same."""
    header, state = backup.header, backup.state
    same_number = header["num_replicas"] == state.num_replicas
    for number, (variable, listed) in enumerate(zip(variables, header[group])):
        is_per_replica = listed["is_per_replica"] and same_number
        value = _read(backup, group, number)
        if value is not None and not is_per_replica:
            value = Value(value.common(), False)
        state.assign(variable, value, is_per_replica)


def _read(backup: _Backup, group: str, number: int) -> Value | None:
    """A value on rank 0; raises OSError on all ranks, none of which then waits for it."""
    value, failure = None, ""
    if backup.reader is not None:
        value, failure = _tried(backup.reader.value, group, number)
    failure = _of_rank_0(backup.model, failure, "whether a value of a backup was read")
    if failure:
        raise _unreadable(backup.path, backup.model, failure)
    return value


def _assign_residuals(backup: _Backup) -> None:
    """What replicas of other numbers have lost belongs to none of these, which begin anew."""
    header, state = backup.header, backup.state
    variables = residual_variables(backup.model)
    saved = saved_layout(header.get("residuals", []))
    # A part of a residual is a rank's. Older files say only how many replicas there were in all.
    counts = header.get("counts")
    is_same = header["num_replicas"] == state.num_replicas and counts in (None, state.counts)
    if is_same and saved == layout(variables):
        _assign(backup, "residuals", variables)
        return
    for each in variables:
        for copy in local_copies(each.variable):
            copy.assign(np.zeros(copy.shape, copy.dtype.as_numpy_dtype))


def _metrics(backup: _Backup, iterator: TFEpochIterator) -> list[list]:
    """Assigns to the metrics, which `fit` resets when the epoch begins, and keeps what they hold.

    Metrics that are not those of then count from here on: they decide no weight.
    """
    if backup.header["metrics"]:
        symbolic_build.build_metrics(backup.model, iterator)
    variables = metric_variables(backup.model)
    if not variables or layout(variables) != saved_layout(backup.header["metrics"]):
        return []
    _assign(backup, "metrics", variables)
    copies = [each.variable for each in variables]
    return [[copy, copy.numpy()] for each in copies for copy in getattr(each, "values", (each,))]


def _of_rank_0(model: keras.Model, value: Any, name: str) -> Any:
    """Rank 0's value, of JSON's types, on all ranks."""
    communicator = calls.communicator_of(model)
    if communicator is None:
        return value
    own = value if communicator.rank == 0 else None
    return gather_json(own, communicator, name)[0]


def _root(model: keras.Model) -> str:
    """The rank that reads and writes backups, by its number in the world."""
    communicator = calls.communicator_of(model)
    return "rank 0" if communicator is None else communicator.in_words(0)
