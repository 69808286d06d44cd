"""`wrap` and what it composes, what replicas exchange and when; and optimizers, one file each."""

from tf_adasum.optimizers.lars import LARS

__all__ = ["LARS"]
