"""Models trained with tf_adasum."""
