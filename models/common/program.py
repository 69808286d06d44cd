"""How a training script starts and ends."""

from __future__ import annotations

import sys
from collections.abc import Callable

from absl import app, flags, logging

import tf_adasum
from models.common.datasets import DatasetError


def run(main: Callable[[], None]) -> None:
    """Runs `main` after the flags were read; data that is not to be had ends it with one line.

    Example:
        >>> if __name__ == "__main__":
        ...     program.run(main)
    """
    try:
        app.run(lambda argv: _run(main, argv))
    except DatasetError as error:
        sys.exit(f"rank {tf_adasum.rank()}: {error}")


def _run(main: Callable[[], None], argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"expected flags only. Received: {' '.join(argv[1:])}")
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)  # tensorflow_datasets tells every step
    main()
