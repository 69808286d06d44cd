"""Collectives over the ranks of a job, without strategy and Keras: tensors or arrays in and out."""
