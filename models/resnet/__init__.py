"""Residual networks with the recipe for large batches."""
