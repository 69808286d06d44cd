"""The rows, one subject a file; importing this registers them in the order of the table."""

from tests.keras.rows import (  # noqa: I001 (the order of the table)
    steps,
    optimizers,
    losses,
    layers,
    models,
    precision,
    inputs,
    evaluation,
    callbacks,
    saving,
)

SUBJECTS = (
    steps,
    optimizers,
    losses,
    layers,
    models,
    precision,
    inputs,
    evaluation,
    callbacks,
    saving,
)
