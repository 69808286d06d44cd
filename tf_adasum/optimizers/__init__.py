"""`wrap` and what it composes: what replicas exchange, and when."""
