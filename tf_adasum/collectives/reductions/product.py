"""Product of x_i, element by element."""

import tensorflow as tf

from tf_adasum.collectives.reductions import ReductionTraits

REDUCTION = ReductionTraits(
    name="product", floats_only=False, combine_pair=tf.multiply, on_gpu=False, is_odd=False
)
