"""Allreduces between hosts, over a wire of a known rate."""
