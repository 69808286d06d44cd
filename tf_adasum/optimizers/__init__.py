"""`wrap` and what it composes, what replicas exchange and when; and optimizers, one file each."""

from tf_adasum.optimizers.cada import CADA
from tf_adasum.optimizers.lars import LARS
from tf_adasum.optimizers.onebit_adam import OneBitAdam
from tf_adasum.optimizers.onebit_lamb import OneBitLamb
from tf_adasum.optimizers.sketched_sgd import SketchedSGD
from tf_adasum.optimizers.zero_one_adam import ZeroOneAdam

__all__ = ["CADA", "LARS", "OneBitAdam", "OneBitLamb", "SketchedSGD", "ZeroOneAdam"]
