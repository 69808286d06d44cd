"""The rows, one subject a file; importing this registers them in the order of the table."""

from tests.keras.rows import steps

SUBJECTS = (steps,)
