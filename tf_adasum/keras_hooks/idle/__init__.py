"""Replicas whose batch has no row: what of theirs does not count."""
