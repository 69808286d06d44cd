"""Passes the ranks' stderr on, without what TensorFlow writes before its log level counts.

It also notes what mpirun says of the job.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable

from adasumrun import notices

# Written by every rank at import, whatever TF_CPP_MIN_LOG_LEVEL says: absl's notice, and INFO.
_NOISE = (b"WARNING: All log messages before absl::InitializeLog()", b"I0000 00:00:")
_CHUNK_BYTES = 65536


class NoiseFilter:
    """Drops whole lines of noise from a stream of bytes and holds nothing else back.

    An unfinished line, a progress bar for instance, is passed on at once unless it may yet become
    noise.

    Args:
      write: takes the bytes that remain.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._held = b""
        self._inside_line = False

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes of the stream."""
        for piece in (self._held + chunk).splitlines(keepends=True):
            self._held = b""
            ended = piece.endswith((b"\n", b"\r"))
            if not self._inside_line and not ended and _may_be_noise(piece):
                self._held = piece
            elif self._inside_line or not piece.startswith(_NOISE):
                self._write(piece)
                self._inside_line = not ended

    def close(self) -> None:
        """Passes on what was held back at the stream's end."""
        if not self._held.startswith(_NOISE):
            self._write(self._held)
        self._held = b""


def start_filter(descriptor: int, drops_noise: bool = True) -> tuple[int, int, int]:
    """Starts a process that copies a pipe to a file descriptor through a NoiseFilter.

    It is a process and not a thread, so that mpirun has a reader, and ends the ranks in order, also
    when the launcher was killed. It ends when the last writer has closed the pipe.

    Args:
      descriptor: where the bytes go.
      drops_noise: whether there is a NoiseFilter.

    Returns:
      The id of the process, the pipe's end for the writers, and where `Notices` reads.
    """
    out, into = os.pipe()
    source, notify = os.pipe()
    process = os.fork()
    if process:
        os.close(out)
        os.close(notify)
        return process, into, source
    try:
        # Ctrl-C in a terminal, and its end, are for the launcher alone.
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.close(into)
        copy(out, descriptor, notify, drops_noise)
    finally:
        os._exit(0)


def copy(source: int, descriptor: int, notify: int, drops_noise: bool = True) -> None:
    """Copies one file descriptor to another until the source ends.

    Args:
      source: what is read.
      descriptor: what is written.
      notify: where what mpirun says is noted.
      drops_noise: whether to leave out the noise.
    """
    noise_filter = NoiseFilter(lambda kept: _write_all(descriptor, kept))
    finder = notices.Finder(notify)
    while chunk := os.read(source, _CHUNK_BYTES):
        # Open MPI ends its message of an abort with a NUL: grep would take the log for binary.
        chunk = chunk.replace(b"\0", b"")
        finder.feed(chunk)
        if drops_noise:
            noise_filter.feed(chunk)
        else:
            _write_all(descriptor, chunk)
    noise_filter.close()


def _may_be_noise(start: bytes) -> bool:
    return any(start.startswith(noise) or noise.startswith(start) for noise in _NOISE)


def _write_all(descriptor: int, remaining: bytes) -> None:
    while remaining:
        try:
            remaining = remaining[os.write(descriptor, remaining) :]
        except BlockingIOError:
            # Another program has it too, as a terminal, and does not want to wait: we do.
            ready = select.poll()
            ready.register(descriptor, select.POLLOUT)
            ready.poll()
        except OSError:
            # Nobody reads the launcher's stderr any more. The ranks' is read on, or they block.
            return
