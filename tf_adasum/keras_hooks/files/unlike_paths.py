"""Ranks whose callbacks would write under other names than rank 0's hear of it as `fit` begins.

Rank 0 alone writes. A program that loads its best weights after the training, by a name with the
time of day in it, would find nothing on a rank that came to the next second.
"""

from __future__ import annotations

import itertools
import json
import logging
import os

from keras.callbacks import CSVLogger, ModelCheckpoint

from tf_adasum.collectives.communicator import Communicator

SETTING = "files of callbacks"

# Of what programs read behind `fit`, and where each keeps the name that it was given.
_NAMES = ((CSVLogger, "filename"), (ModelCheckpoint, "filepath"))

_log = logging.getLogger("tf_adasum")


def of_callbacks(callbacks: list) -> str:
    """What the callbacks of a call are to write, by name."""
    found = []
    for each in callbacks:
        for kind, attribute in _NAMES:
            path = getattr(each, attribute, None)
            if isinstance(each, kind) and isinstance(path, (str, os.PathLike)):
                found.append([kind.__name__, os.fspath(path)])
    return json.dumps(found)


def tell(of_ranks: list[str], communicator: Communicator) -> None:
    """Rank 0 says so where a rank has another name for the same file.

    Ranks may have fewer callbacks than others, or more, or in another order.
    """
    if communicator.rank > 0:
        return
    first, *others = map(json.loads, of_ranks)
    for rank, other in enumerate(others, 1):
        own = [pair for pair in first if pair not in other]
        theirs = [pair for pair in other if pair not in first]
        for (kind, path), (other_kind, other_path) in itertools.product(own, theirs):
            if kind == other_kind:
                _warn(kind, communicator.in_words(0), path, communicator.in_words(rank), other_path)
                return


def _warn(*words: str) -> None:
    _log.warning(
        "fit: %s of %s writes %r, and that of %s %r. The first alone writes: what others look for "
        "under a name of their own is not there. A name with the time in it may be another one on "
        "each rank; take rank 0's, by mpi4py: MPI.COMM_WORLD.bcast(name).",
        *words,
    )
