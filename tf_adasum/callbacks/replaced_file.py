"""A file that takes another one's place when it is complete."""

from __future__ import annotations

import contextlib
import io
import os


class ReplacedFile(io.FileIO):
    """Writes beside a file, under its name and ".partial", until `replace`.

    HDF5 writes through it, and is told of no failure: where the disk is full it can't close its
    file, and crashes with the next one (HDF5 1.14, by h5py 3.14). After the first failure nothing
    is written any more, and `check` raises it.

    Args:
        path: the file's name.

    Raises:
        OSError: the folder or the file can't be made.
    """

    def __init__(self, path: str):
        self._path = path
        self._partial = partial_name(path)
        self._failure: OSError | None = None
        os.makedirs(self._folder, exist_ok=True)
        super().__init__(self._partial, "w+")

    @property
    def _folder(self) -> str:
        return os.path.dirname(os.path.abspath(self._path))

    def write(self, data) -> int:
        """Writes all of it, or keeps the failure; returns the number of bytes."""
        left = memoryview(data).cast("B")
        size = len(left)
        with self._keeping_failure():
            while left and self._failure is None:
                left = left[super().write(left) :]
        return size

    def truncate(self, size: int | None = None) -> int:
        """Sets the file's size, or keeps the failure."""
        if self._failure is None:
            with self._keeping_failure():
                return super().truncate(size)
        return self.tell() if size is None else size

    def check(self) -> None:
        """Raises the first failure, if there was one."""
        if self._failure is not None:
            raise self._failure

    def replace(self) -> None:
        """Brings the file to the disk and gives it its name; raises OSError if that fails."""
        self.check()
        os.fsync(self.fileno())
        self.close()
        try:
            os.replace(self._partial, self._path)
        except FileNotFoundError:
            told = f"{self._partial} is gone: does another job save there, or remove it?"
            raise FileNotFoundError(told) from None
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def abandon(self) -> None:
        """Removes what was written, unless it has its name."""
        with contextlib.suppress(OSError):
            self.close()
        remove_partial(self._path)

    @contextlib.contextmanager
    def _keeping_failure(self):
        try:
            yield
        except OSError as error:
            self._failure = error


def partial_name(path: str) -> str:
    """Where a file is written that takes the place of `path`; by one program, so one is enough."""
    return f"{path}.partial"


def remove_partial(path: str) -> None:
    """Removes what a process left that was killed while it wrote."""
    with contextlib.suppress(OSError):
        os.remove(partial_name(path))
