"""Sum of x_i: what synchronous SGD with a scaled learning rate does."""

import tensorflow as tf

from tf_adasum.collectives.reductions import ReductionTraits

REDUCTION = ReductionTraits(name="sum", floats_only=False, combine_pair=tf.add)
