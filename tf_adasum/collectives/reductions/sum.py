"""Sum: what synchronous SGD with a scaled learning rate does."""

import tensorflow as tf

from tf_adasum.collectives.reductions import Reduction

REDUCTION = Reduction(name="sum", summary="sum of x_i", floats_only=False, combine_pair=tf.add)
