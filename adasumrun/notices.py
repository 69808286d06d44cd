"""What mpirun says of the job, told from what ranks write that reads alike.

Ranks and mpirun share one stderr. A rank may log the end of another job, or run an adasumrun of its
own: a sentence counts only where the process that Open MPI names with it is this job's mpirun.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable

# What Open MPI says: 5 ends with 0 when it has lost a host, and may wait for many minutes for one
# that does not answer when it ends a job.
LOST_HOST, ENDS_JOB = "lost", "ends"
_SENTENCES = {
    b"has lost communication with a remote daemon": LOST_HOST,
    b"thus causing the job to be terminated": ENDS_JOB,
}
# "[prterun-HOST-PID@0,0]"; of Open MPI 4 "[[36291,0],0]", of which only it knows what it means.
_SAYS = re.compile(
    b"(" + b"|".join(_SENTENCES) + rb")[^\[]{1,99}\[(?:\[|[^\s\[\]@-]+-([^\s\[\]@]{1,255})-(\d+)@)"
)
_LONGEST = 512
_LOOK_EVERY_SECONDS = 1
_CHUNK_BYTES = 65536


class Finder:
    """Finds what reads like Open MPI's in a stream of bytes, and hands it to a `Notices`.

    Args:
      notify: the file descriptor for it; `Notices` has the other end of that pipe.
    """

    def __init__(self, notify: int):
        # Ranks that write more of it than is read are not kept waiting.
        os.set_blocking(notify, False)
        self._notify = notify
        self._last = b""

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes of the stream."""
        text, end = self._last + chunk, 0
        for found in _SAYS.finditer(text):
            sentence, host, process = found.groups()
            line = b"%b %b %b\n" % (_SENTENCES[sentence].encode(), process or b"0", host or b"")
            end = found.end()
            try:
                os.write(self._notify, line)
            except OSError:
                pass  # it is full, or nobody reads it any more
        self._last = text[end:][-_LONGEST:]


class Notices:
    """What this job's mpirun says.

    Args:
      source: the file descriptor where a `Finder` writes.
      launchers: returns the process that was started as mpirun, and those that it has started and
        are no ranks: it may be a script that starts mpirun.
    """

    def __init__(self, source: int, launchers: Callable[[], set[int]]):
        os.set_blocking(source, False)
        self._source = source
        self._launchers = launchers
        self._known: set[int] = set()  # they may have ended by the time that their words are read
        self._next = 0.0
        self._rest = b""
        self._said: dict[str, int] = {}

    def take(self, notice: str) -> int | None:
        """Returns what was said since it was last asked for, and forgets it.

        Args:
          notice: LOST_HOST, or ENDS_JOB.

        Returns:
          The process that said so, 0 if that is not known; None if it was not said.
        """
        try:
            self._rest += os.read(self._source, _CHUNK_BYTES)
        except BlockingIOError:
            pass
        *lines, self._rest = self._rest.split(b"\n")
        if lines or time.monotonic() >= self._next:
            self._known |= self._launchers()
            self._next = time.monotonic() + _LOOK_EVERY_SECONDS
        for line in lines:
            kind, number, host = os.fsdecode(line).split(" ", 2)
            if self._is_own(int(number), host):
                self._said[kind] = int(number)
        return self._said.pop(notice, None)

    def _is_own(self, process: int, host: str) -> bool:
        if process == 0:
            return True
        # Open MPI may have cut off the domain, and what its setting prte_strip_prefix says.
        if not _first_word(socket.gethostname()).endswith(_first_word(host)):
            return False
        return process in self._known


def _first_word(host: str) -> str:
    return host.partition(".")[0]
