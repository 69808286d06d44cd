"""Mean: what data-parallel training usually does."""

from tf_adasum.reductions import Reduction

REDUCTION = Reduction(name="mean", summary="sum of x_i / N", floats_only=False)
