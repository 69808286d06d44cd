"""What adasumrun's options take, checked as the command line is read."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Callable

from adasumrun import host_file

# A name or an address; none that begins as an option does, of mpirun or of ssh.
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")


def positive(text: str) -> int:
    """Returns a whole number above 0."""
    return _number(text, least=1, wanted="a whole number above 0")


def count(text: str) -> int:
    """Returns a whole number from 0 on."""
    return _number(text, least=0, wanted="a whole number from 0 on")


def between(least: float, most: float) -> Callable[[str], float]:
    """Returns what takes a number of this range."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"expected a number from {least:g} to {most:g}. Received: {text!r}"
            )
        return value

    return number


def file_to_write(path: str) -> str:
    """Returns the path of a file that can be written: what ends hours later must not fail then."""
    folder = os.path.dirname(path) or "."
    is_file = bool(path) and not os.path.isdir(path) and os.path.isdir(folder)
    if not is_file or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise argparse.ArgumentTypeError(
            f"expected a file in a folder that is there and can be written. Received: {path!r}"
        )
    return path


def shell_words(text: str) -> str:
    """Returns the words of --mpi-args as they are, if a shell could split them."""
    try:
        shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"expected words as a shell takes them. Received: {text!r} ({error})"
        ) from error
    return text


def host_list(text: str) -> str:
    """Returns the hosts of -H as they are: host or host:ranks, with commas between."""
    for entry in text.split(","):
        name, _, ranks = entry.partition(":")
        if not _HOST.fullmatch(name) or (ranks != "" and not _is_positive(ranks)):
            # mpirun's -H ends a host's name at the first colon, also inside of [].
            cure = ". Give an IPv6 address a name, in /etc/hosts for instance"
            raise argparse.ArgumentTypeError(
                f"expected HOST or HOST:RANKS. Received: {entry!r}{cure * (entry.count(':') > 1)}"
            )
    return text


class HostsOfFile(str):
    """The hosts that a file lists, as -H takes them.

    Attributes:
      shares: what share of each batch every rank of a host gets, by the host's name; empty where
        the file says nothing of it.
    """

    shares: dict[str, float]


def hosts_of_file(path: str) -> HostsOfFile:
    """Returns the hosts that a file lists."""
    try:
        # With the mark that some editors put in front, and comments in any encoding.
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            lines = file.readlines()
        listed = HostsOfFile(host_list(host_file.hosts_of_lines(lines)))
        listed.shares = host_file.shares_of_lines(lines)
        return listed
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"expected a file of hosts. Received: {path}: {error.strerror}"
        ) from error
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from error


def _number(text: str, least: int, wanted: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"expected {wanted}. Received: {text!r}")
    return value


def _is_positive(text: str) -> bool:
    # What mpirun reads, which knows other scripts' digits not, and no more than an int holds.
    return text.isascii() and text.isdecimal() and 0 < int(text) < 2**31
