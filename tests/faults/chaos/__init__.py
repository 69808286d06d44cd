"""Kills and stops random ranks of a training at random moments: `python -m tests.faults.chaos`."""
