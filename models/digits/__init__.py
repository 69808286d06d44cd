"""Handwritten digits: the example that `make demo` trains, to copy from."""
