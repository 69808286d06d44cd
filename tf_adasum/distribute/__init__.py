"""The tf.distribute strategy: replicas, variables, data and reductions over several processes."""
