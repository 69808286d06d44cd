"""Ranks that export a model, or put a checkpoint in place, under one path do so in turns.

A folder can't be written beside and renamed, as whole_files does with a file: others may have put
something of theirs into it. Two that write at once would take each other's files.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator

from adasumrun.counted_time import CountedTime
from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.files import wait_limit

_TRY_EVERY_SECONDS = 0.02


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Around what writes a folder: holds the lock of the one that it lies in.

    The kernel frees the lock of a process that is killed. Where a file system has no locks for
    folders, as NFS has none, nothing is held.

    Args:
        path: of the folder, which need not be there.

    Raises:
        TimeoutError: others have held the lock for TF_ADASUM_TIMEOUT_SECONDS.
    """
    folder = _nearest_folder(path)
    # Which one may write to, and yet not read; or an export within one.
    if not os.access(folder, os.R_OK) or folder in _held.folders:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _take(descriptor, path)
        _held.folders.add(folder)
        yield
    finally:
        _held.folders.discard(folder)
        # A child of this process, forked meanwhile, would hold it after os.close alone.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


class _Held(threading.local):
    """Folders whose locks this thread holds."""

    def __init__(self):
        self.folders: set[str] = set()


_held = _Held()


def _take(descriptor: int, path: str) -> None:
    seconds, waited = wait_limit.seconds(), CountedTime()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if waited.seconds() > seconds:
                received = f"its folder is locked for {seconds:g} s ({wait_limit.VARIABLE})"
                advice = "Write on one rank alone: `if tf_adasum.rank() == 0:`."
                expected = f"other processes to end writing beside {path!r}"
                raise TimeoutError(refusal(expected, received, advice)) from None
            time.sleep(_TRY_EVERY_SECONDS)
        except OSError:
            return  # a file system without


def _nearest_folder(path: str) -> str:
    folder = os.path.dirname(os.path.realpath(path))
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder
