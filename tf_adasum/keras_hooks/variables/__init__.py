"""Weights and other variables: what is equal on all ranks, and what is a replica's own."""
