"""Sum: what synchronous SGD with a scaled learning rate does."""

from tf_adasum.reductions import Reduction

REDUCTION = Reduction(name="sum", summary="sum of x_i", floats_only=False)
