"""What a log says of a crash, in a few lines: the fatal error and where its thread was."""

from __future__ import annotations

# How faulthandler begins.
_FATAL = "Fatal Python error:"
_CURRENT = "Current thread"
# A failed check of TensorFlow's, or std::terminate, tells its reason right before.
_LINES_BEFORE = 5
# An excerpt stays one: stacks of pytest are deep.
_MOST_FRAMES = 25


def excerpt(log: str) -> list[str]:
    """Returns the lines around the first fatal error of a rank's log; none if there is none."""
    lines = log.splitlines()
    fatal = next((i for i, line in enumerate(lines) if line.startswith(_FATAL)), None)
    if fatal is None:
        return []
    found = lines[max(fatal - _LINES_BEFORE, 0) : fatal + 1]
    current = next((i for i in range(fatal, len(lines)) if lines[i].startswith(_CURRENT)), None)
    if current is not None:
        stack = lines[current : current + 1 + _MOST_FRAMES]
        found += stack[: stack.index("")] if "" in stack else stack
    return found
