"""Measures a model and a machine, and predicts a training on more ranks than there are."""
