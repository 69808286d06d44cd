"""What `keras.utils.get_file` brings into the cache is whole, though all ranks bring it at once.

Keras writes a download under its own name, and takes what lies there for whole: ranks that begin
with an empty cache would read what another one is still writing. They also unpack one archive into
one folder, where a file that is unpacked once more is emptied first.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile

from keras.src.utils import file_utils

from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads

require_hooks(file_utils, "extract_archive", "urlretrieve")
require_reads(file_utils, "get_file", "extract_archive", "urlretrieve")


@functools.cache
def install() -> None:
    """Lets `get_file`, by whatever name a program holds it, write beside and rename.

    Programs load their data before they make a strategy, so that this is installed before.
    """
    _download_beside()
    _unpack_beside()


def _download_beside() -> None:
    original = file_utils.urlretrieve

    @functools.wraps(original)
    def retrieve(url, filename=None, *args, **kwargs):
        if filename is None:
            return original(url, filename, *args, **kwargs)
        with _folder_beside(filename) as folder:
            partial = os.path.join(folder, "download")
            _, headers = original(url, partial, *args, **kwargs)
            os.replace(partial, os.path.realpath(filename))
        return filename, headers

    file_utils.urlretrieve = retrieve


def _unpack_beside() -> None:
    original = file_utils.extract_archive

    @functools.wraps(original)
    def extract(file_path, path=".", *args, **kwargs):
        with _folder_beside(path) as folder:
            is_archive = original(file_path, folder, *args, **kwargs)
            if is_archive:
                _move_into(folder, os.fspath(path))
        return is_archive

    file_utils.extract_archive = extract


def _folder_beside(path: str | os.PathLike) -> tempfile.TemporaryDirectory:
    """A new one in the folder that `path` lies in, or what it links to: a rename copies nothing."""
    parent = os.path.dirname(os.path.realpath(path))
    os.makedirs(parent, exist_ok=True)
    # Without the name, which may be as long as names can be.
    return tempfile.TemporaryDirectory(prefix=".partial.", dir=parent, ignore_cleanup_errors=True)


def _move_into(source: str, target: str) -> None:
    """Moves all files, each in place of the one that is there, which a reader keeps open."""
    os.makedirs(target, exist_ok=True)
    with os.scandir(source) as entries:
        for entry in list(entries):
            place = os.path.join(target, entry.name)
            if entry.is_dir(follow_symlinks=False):
                _move_into(entry.path, place)
                shutil.copystat(entry.path, place)
            else:
                os.replace(entry.path, place)
