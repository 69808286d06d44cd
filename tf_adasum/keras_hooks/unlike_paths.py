"""Ranks whose callbacks would write under other names than rank 0's hear of it as `fit` begins.

Rank 0 alone writes. A program that loads its best weights after the training, by a name with the
time of day in it, would find nothing on a rank that came to the next second.
"""

from __future__ import annotations

import json
import logging
import os

from keras.callbacks import CSVLogger, ModelCheckpoint

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.gathered import first_unlike

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
    """Rank 0 says so where a rank has another name for the same file."""
    rank = first_unlike(of_ranks)
    if rank is None or communicator.rank > 0:
        return
    first, other = (json.loads(of_ranks[each]) for each in (0, rank))
    pairs = [pair for pair in zip(first, other) if pair[0] != pair[1] and pair[0][0] == pair[1][0]]
    if not pairs:
        return  # a rank that has fewer callbacks than others
    (kind, path), (_, others_path) = pairs[0]
    _log.warning(
        "fit: %s of %s writes %r, and that of %s %r. The first alone writes: what others look for "
        "under a name of their own is not there. A name with the time in it may be another one on "
        "each rank; take rank 0's, by mpi4py: MPI.COMM_WORLD.bcast(name).",
        *(kind, communicator.in_words(0), path, communicator.in_words(rank), others_path),
    )
