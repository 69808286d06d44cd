"""Files: rank 0 writes them, whole, and others wait."""
