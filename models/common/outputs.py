"""Flags that name a file which rank 0 writes when all is done."""

from __future__ import annotations

import argparse

from absl import flags

from adasumrun import argument_types, job


def check(*names: str) -> None:
    """Ends a program whose flags name files that can't be written, before it begins.

    Args:
        names: of flags that are defined, without the dashes.
    """
    for name in names:
        flags.register_validator(name, _checked)


def _checked(path: str | None) -> bool:
    if path is None or "://" in path or not job.speaks():
        return True
    try:
        argument_types.file_to_write(path)
    except argparse.ArgumentTypeError as error:
        raise flags.ValidationError(f"{error}.") from error
    return True
