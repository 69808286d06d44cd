"""Random numbers: every replica draws its own."""
