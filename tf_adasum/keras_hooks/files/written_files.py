"""A rank that loads a file which it has left to rank 0 waits until rank 0 has written it.

Rank 0 tells all others when it has saved something in a callback's turn, and waits for nobody. The
others count the saves that they leave to it, and wait where they load one of these files, in the
turn or behind an exception. It is no collective: one rank may save, or load, by itself.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import threading
import time
import weakref
from dataclasses import dataclass, field

import keras
import numpy as np
from keras.src.saving import saving_api, saving_lib

from adasumrun.counted_time import CountedTime
from tf_adasum.collectives.communicator import Communicator, world
from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.files import wait_limit

# Keras' functions that load, and where the file is among their arguments. `load_model` looks at it
# first, so that it is hooked by all names that it has.
_READERS = [
    (saving_api, "load_weights", 1),
    (saving_lib, "load_weights_only", 1),
    *((owner, "load_model", 0) for owner in (saving_api, keras.saving, keras.models)),
]
for _owner, _name, _ in _READERS:
    require_hooks(_owner, _name)
require_reads(keras.Model, "load_weights", "load_weights")
require_reads(saving_api, "load_weights", "load_weights_only")

_LOOK_EVERY_SECONDS = 0.005

# How often the ranks have met, and how many saves by a name came since.
_Mark = tuple[int, int]


@dataclass
class _Files:
    """What a rank has saved for its group, or has left to the group's rank 0.

    Attributes:
        world_ranks: of the group.
        key: names the group; equal on its ranks, and of no other group of its rank 0.
        num_meetings: how often the ranks have met between callbacks' turns.
        saves: the last save by each name.
        is_saving: whether a save is under way of which rank 0 tells at its end.
    """

    world_ranks: list[int]
    key: int
    num_meetings: int = 0
    saves: dict[str, _Mark] = field(default_factory=dict)
    is_saving: bool = False


@dataclass
class _Left:
    """A save that this rank has left to rank 0: which, whose, and what it goes by there."""

    mark: _Mark
    files: _Files
    name: str


_of_groups: weakref.WeakKeyDictionary[Communicator, _Files] = weakref.WeakKeyDictionary()
_keys = itertools.count(1)  # of groups whose rank 0 this is; 0 is the world
_lock = threading.Lock()
# What the rank 0 of each group has told: (its rank in the world, key of the group, name).
_told: dict[tuple[int, int, str], _Mark] = {}
# By the file's path. Where ranks have met since, it is written.
_left: dict[str, _Left] = {}


def install() -> None:
    """Lets ranks know each other before callbacks save, and wait before they load."""
    calls.at_begin(lambda call, _: _know(call.communicator))
    for owner, name, place in _READERS:
        _wait_before(owner, name, place)


@contextlib.contextmanager
def saving(communicator: Communicator, name: str, path: str | None = None):
    """Around what rank 0 saves in a callback's turn, or what another rank leaves to it.

    Args:
        communicator: whose ranks make the call.
        name: equal on all ranks.
        path: where the file will be, if that is not its name.
    """
    files = _of_groups.get(communicator)
    if files is None or files.is_saving:  # a save by a save, of which rank 0 has one
        yield
        return
    path = os.path.realpath(path or name)
    name = hashlib.sha1(os.fsencode(name)).hexdigest()  # of a length that messages have room for
    files.is_saving = True
    try:
        yield
    finally:  # also where it failed: nobody is to wait for it
        files.is_saving = False
        meetings, number = files.saves.get(name, (-1, 0))
        mark = files.num_meetings, number + 1 if meetings == files.num_meetings else 1
        files.saves[name] = mark
        if communicator.rank == 0:
            _tell(files, name, mark)
        else:
            _left[path] = _Left(mark, files, name)


def meet(communicator: Communicator) -> None:
    """Is told that a turn is over, before the ranks hear so from each other."""
    files = _know(communicator)
    files.num_meetings += 1
    if communicator.rank == 0 and files.saves:
        # For a rank that waits for a save that there was none of here.
        _tell(files, "", (files.num_meetings, 0))


def met(communicator: Communicator) -> None:
    """Is told that all ranks have ended the turn: what they saved is written."""
    files = _of_groups[communicator]
    files.saves.clear()
    for path in [path for path, left in _left.items() if left.files is files]:
        del _left[path]
    _receive()


def _know(communicator: Communicator) -> _Files:
    """Learns by which key rank 0 names a group; collective, once."""
    if communicator in _of_groups:
        return _of_groups[communicator]
    key = np.zeros(1, np.int64)
    if communicator is not world():
        if communicator.rank == 0:
            key[0] = next(_keys)
        communicator.allreduce_arrays([key], "sum", "whose callbacks save")
    _of_groups[communicator] = _Files(communicator.world_ranks, int(key[0]))
    return _of_groups[communicator]


def _tell(files: _Files, name: str, mark: _Mark) -> None:
    with _lock:
        for rank in files.world_ranks[1:]:
            world().mailbox.send(rank, {"key": files.key, "name": name, "mark": mark})


def _receive() -> None:
    with _lock:
        for sender, message in world().mailbox.receive():
            key, name, mark = message["key"], message["name"], tuple(message["mark"])
            if not name:  # the end of a turn, which answers for all that was saved before it
                for told in [told for told in _told if told[:2] == (sender, key)]:
                    if _told[told] <= mark:
                        del _told[told]
            _told[sender, key, name] = mark


def _wait_before(owner: object, name: str, place: int) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def load(*args, **kwargs):
        path = args[place] if len(args) > place else kwargs.get("filepath")
        if isinstance(path, (str, os.PathLike)):
            wait_for(path)
        return original(*args, **kwargs)

    setattr(owner, name, load)


def wait_for(path: str | os.PathLike) -> None:
    """Returns when rank 0 has written what this rank has left to it under a path, if anything.

    Raises:
        TimeoutError: rank 0 has told nothing of it for TF_ADASUM_TIMEOUT_SECONDS.
    """
    path = os.path.realpath(path)
    left = _left.get(path)
    if left is None:
        return
    seconds, waited = wait_limit.seconds(), CountedTime()
    while not _is_told(left):
        if waited.seconds() > seconds:
            received = f"nothing of it for {seconds:g} s ({wait_limit.VARIABLE})"
            advice = "Let callbacks of all ranks save alike, and exceptions rise on all of them."
            expected = f"rank {left.files.world_ranks[0]} to save {path!r}, as callbacks did here"
            raise TimeoutError(refusal(expected, received, advice))
        time.sleep(_LOOK_EVERY_SECONDS)
        _receive()
    _left.pop(path, None)


def _is_told(left: _Left) -> bool:
    sender, key = left.files.world_ranks[0], left.files.key
    return any(_told.get((sender, key, name), (-1, 0)) >= left.mark for name in ("", left.name))
