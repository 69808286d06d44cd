"""Adasum gradient combining for TensorFlow 2.21 and Keras 3.

Adasum adds what is orthogonal in the workers' gradients and averages what is parallel (Maleki et
al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021):

    import tf_adasum as adasum

    strategy = adasum.AdasumStrategy()
    with strategy.scope():
        model = build()
        model.compile(optimizer=adasum.wrap(keras.optimizers.Adam()), loss=...)
    model.fit(dataset)
"""

import os
import sys

__version__ = "0.1.0"

__all__ = [
    "AdasumStrategy",
    "Communicator",
    "allreduce",
    "allreduce_arrays",
    "broadcast",
    "broadcast_variables",
    "local_rank",
    "local_size",
    "rank",
    "simulate",
    "size",
    "world",
    "wrap",
]


def _is_launching() -> bool:
    """Whether this process only starts ranks: adasumrun does without TensorFlow's seconds."""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""
    if program == "-m":
        words = zip(sys.orig_argv, sys.orig_argv[1:])
        program = next((word for option, word in words if option == "-m"), "")
    return program in ("adasumrun", "tf_adasum.launcher", "tf_adasum.rank_threads")


if not _is_launching():
    # Eager, so that keras.models.load_model finds wrapped optimizers after this import alone.
    from tf_adasum.allreduce import allreduce, broadcast
    from tf_adasum.arrays import allreduce_arrays
    from tf_adasum.communicator import Communicator, local_rank, local_size, rank, size, world
    from tf_adasum.optimizer import wrap
    from tf_adasum.simulate import simulate
    from tf_adasum.strategy import AdasumStrategy
    from tf_adasum.variables import broadcast_variables
