"""Measurements; run with `make bench`, or one by one with `--help`."""
