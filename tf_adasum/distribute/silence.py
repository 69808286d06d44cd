"""A logger that says nothing for a while."""

from __future__ import annotations

import contextlib
import logging


@contextlib.contextmanager
def silent(logger: logging.Logger):
    """Mutes `logger` inside: what a base class says, every rank would print."""
    logger.addFilter(_nothing)
    try:
        yield
    finally:
        logger.removeFilter(_nothing)


def _nothing(record) -> bool:
    del record
    return False
