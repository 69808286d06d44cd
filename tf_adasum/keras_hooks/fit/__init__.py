"""The calls of `fit`, `evaluate` and `predict`, and their callbacks' turns."""
