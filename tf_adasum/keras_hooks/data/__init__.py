"""What replicas are given: batches, their order, and the ends of data."""
