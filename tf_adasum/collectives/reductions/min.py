"""Min, the smallest x_i, element by element; NaN where any rank has it."""

import tensorflow as tf

from tf_adasum.collectives.reductions import ReductionTraits

REDUCTION = ReductionTraits(
    name="min", floats_only=False, combine_pair=tf.minimum, on_gpu=False, is_odd=False
)
