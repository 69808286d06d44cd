"""What ranks save by Keras is whole under its name: it is written beside, then renamed.

Keras begins by emptying the file that it is about to write. A process that is killed then has lost
both saves; and ranks that save under one name would write into each other's file.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import inspect
import os
import shutil
from collections.abc import Callable, Iterator

import keras

from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.files import one_at_a_time

# Keras goes by them, and with others it writes folders.
_ENDINGS = (".weights.h5", ".h5", ".keras")
_MOST_BYTES = 255  # of a file's name
# A file that is mounted by itself, as by `docker -v model.keras:/model.keras`, or is not one's own
# in a folder like /tmp, can be written and not replaced.
_NOT_REPLACED = (errno.EBUSY, errno.EXDEV, errno.EPERM)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def save(original: Callable, model: keras.Model, *arguments, writer: str = "", **options) -> None:
    """Does what `original`, one of the functions that Keras writes files by, does.

    Args:
        original: that function.
        model: what to save.
        *arguments: further arguments. Where they ask for a folder or several files, Keras writes in
            place.
        writer: tells it from others that may save under the same name at once.
        **options: the same by name.

    Raises:
        OSError: there is no room for it.
        FileNotFoundError: another program has removed what was written.
    """
    given = inspect.signature(original).bind(model, *arguments, **options)
    path = given.arguments["filepath"]
    if not isinstance(path, (str, os.PathLike)):  # a buffer, or an open file of HDF5
        original(model, *arguments, **options)
        return
    path = os.fspath(path)
    target = os.path.realpath(path)  # a link goes on naming the file
    partial = _beside(path, target, writer)
    is_one = given.arguments.get("zipped", True) and given.arguments.get("max_shard_size") is None
    # A file may be one's to write to, and its folder not.
    if partial is None or not is_one or not os.access(os.path.dirname(target), os.W_OK):
        original(model, *arguments, **options)
        return
    given.arguments["filepath"] = partial
    with contextlib.ExitStack() as stack:
        stack.callback(_remove, partial)
        with _telling_of_room(target):
            original(*given.args, **given.kwargs)
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(target, partial)
        try:
            os.replace(partial, target)
        except FileNotFoundError as error:
            received = f"that {partial} is gone: does another job save there, or remove it?"
            advice = "Give each job a path of its own."
            raise FileNotFoundError(refusal(f"to write {target}", received, advice)) from error
        except OSError as error:
            if error.errno not in _NOT_REPLACED:
                raise
            kept = stack.pop_all()  # it is all that there is until the target is filled
            _fill(target, partial)
            kept.close()


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.remove(path)


@contextlib.contextmanager
def _telling_of_room(target: str) -> Iterator[None]:
    """HDF5 tells it in several lines, and names a file that is not there any more."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        received = f"{os.strerror(error.errno)}; what was saved there before is left as it was"
        advice = "Make room for it or save it elsewhere."
        raise OSError(error.errno, refusal(f"to write {target}", received, advice)) from error


def _fill(target: str, partial: str) -> None:
    """Gives the content of a complete file to one that keeps its place."""
    try:
        with one_at_a_time.writing(target):
            shutil.copyfile(partial, target)
    except OSError as error:
        expected = f"to write {target}, which can't be replaced"
        received = f"{error.strerror or error}; the whole save is {partial}"
        advice = "Make room for it, and copy it there."
        raise OSError(error.errno, refusal(expected, received, advice)) from error


def _beside(path: str, target: str, writer: str) -> str | None:
    """Returns "folder/.name.partial.keras" for "folder/name.keras"; None where that won't do.

    It lies beside the target, and has the ending of the path, by which Keras goes.

    "*.keras", by which a program may look for the last save, does not find it.
    """
    if "://" in path:  # no local file
        return None
    ending = next((each for each in _ENDINGS if path.endswith(each)), None)
    if ending is None:
        return None
    folder, name = os.path.split(target)
    name, rest = name.removesuffix(ending), f".partial{writer}{ending}"
    if len(os.fsencode(f".{name}{rest}")) > _MOST_BYTES:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return os.path.join(folder, f".{name}{rest}")
