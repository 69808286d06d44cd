"""Metrics of all replicas."""
