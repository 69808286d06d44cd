"""What optimizers count of their exchanges, for users to read."""

from __future__ import annotations

from typing import NamedTuple


class Lateness(NamedTuple):
    """How late a rank's steps came to exchanges that wait for nobody.

    Attributes:
        num_late: steps that came when their exchange was over.
        most_behind: the most exchanges that were over when a step came.
    """

    num_late: int
    most_behind: int


class Uploads(NamedTuple):
    """How often a rank uploaded what it had.

    Attributes:
        num_uploads: steps in which it did.
        num_steps: all steps.
        num_vectors: how many times as many bytes as a gradient has all ranks together have sent:
            in a step in which U > 0 of P ranks upload P + U - 2, else none.
    """

    num_uploads: int
    num_steps: int
    num_vectors: int


class LeftOut(NamedTuple):
    """How much was left out of what ranks exchanged, of all ranks' elements.

    Attributes:
        num_steps: steps in which anything was.
        mean_share: over all steps.
        most_share: in one step.
    """

    num_steps: int
    mean_share: float
    most_share: float
