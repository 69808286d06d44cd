"""The scope of a strategy, and what its replicas hand on."""
