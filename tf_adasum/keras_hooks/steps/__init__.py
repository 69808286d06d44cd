"""Losses, gradients and optimizers in a step."""
