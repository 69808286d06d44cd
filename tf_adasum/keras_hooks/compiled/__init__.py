"""Steps with `jit_compile=True`."""
