"""Mean, the sum of x_i / N: what data-parallel training usually does."""

import tensorflow as tf

from tf_adasum.collectives.reductions import ReductionTraits

REDUCTION = ReductionTraits(
    name="mean",
    floats_only=False,
    combine_pair=tf.add,
    divides_leaves=True,
)
