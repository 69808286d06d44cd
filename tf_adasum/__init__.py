"""Adasum gradient combining for TensorFlow 2.16 to 2.21 and Keras 3.

Adasum adds what is orthogonal in the workers' gradients and averages what is parallel (Maleki et
al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021):

    import tf_adasum as adasum

    strategy = adasum.AdasumStrategy()
    with strategy.scope():
        model = build()
        model.compile(optimizer=adasum.wrap(keras.optimizers.Adam()), loss=...)
    model.fit(dataset)
"""

from tf_adasum import callbacks, horovod_names, optimizers
from tf_adasum.advise.advise import advise

# Eager, so that keras.models.load_model finds wrapped optimizers after this import alone.
from tf_adasum.collectives import compression
from tf_adasum.collectives.allgather import allgather
from tf_adasum.collectives.allreduce import allreduce
from tf_adasum.collectives.alltoall import alltoall
from tf_adasum.collectives.arena import empty
from tf_adasum.collectives.arrays import allreduce_arrays
from tf_adasum.collectives.barrier import barrier
from tf_adasum.collectives.broadcast import broadcast
from tf_adasum.collectives.communicator import (
    Communicator,
    local_rank,
    local_size,
    rank,
    size,
    world,
)
from tf_adasum.collectives.reduce_scatter import reduce_scatter
from tf_adasum.collectives.simulate import simulate
from tf_adasum.distribute.policy import Reduction
from tf_adasum.distribute.strategy import AdasumStrategy
from tf_adasum.distribute.variables import broadcast_variables
from tf_adasum.keras_hooks.files import downloads
from tf_adasum.keras_hooks.fit import lone_fits
from tf_adasum.optimizers import sync
from tf_adasum.optimizers.wrapper import wrap

downloads.install()  # programs load their data before they make a strategy
lone_fits.watch()  # and may forget to make one

__version__ = "0.1.0"
__getattr__ = horovod_names.refusing(__name__, horovod_names.OF_MODULE)

__all__ = [
    "AdasumStrategy",
    "Communicator",
    "Reduction",
    "advise",
    "allgather",
    "allreduce",
    "allreduce_arrays",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_variables",
    "callbacks",
    "compression",
    "empty",
    "local_rank",
    "local_size",
    "optimizers",
    "rank",
    "reduce_scatter",
    "simulate",
    "size",
    "sync",
    "world",
    "wrap",
]
