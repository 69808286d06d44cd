"""Flags that name a file which rank 0 writes when all is done."""

from __future__ import annotations

import argparse
import os

from absl import flags

from adasumrun import argument_types, job


def check(*names: str) -> None:
    """Ends a program whose flags name files that can't be written, before it begins.

    Args:
        names: of flags that are defined, without the dashes.
    """
    for name in names:
        flags.register_validator(name, _checked)


def check_made(name: str) -> None:
    """The same of a flag whose file's folders the program makes; it may name no local file.

    Args:
        name: of the flag.
    """
    flags.register_validator(name, _checked_made)


def _checked_made(path: str | None) -> bool:
    if path is None or "://" in path:
        return True
    folder = os.path.dirname(path)
    while folder and not os.path.exists(folder):
        folder = os.path.dirname(folder)
    return _checked(os.path.join(folder, os.path.basename(path)))


def _checked(path: str | None) -> bool:
    if path is None or not job.speaks():
        return True
    try:
        argument_types.file_to_write(path)
    except argparse.ArgumentTypeError as error:
        raise flags.ValidationError(f"{error}.") from error
    return True
