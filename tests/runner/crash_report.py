"""What a log says of a crash, in a few lines: the fatal error and where its thread was.

Python's frames come from faulthandler, those of native code from tests/runner/native_stack.cc.
"""

from __future__ import annotations

# How faulthandler begins, behind what pytest has printed on that line.
_FATAL = "Fatal Python error:"
_CURRENT = "Current thread"
_NATIVE = "Native stack:"
# A failed check of TensorFlow's, or std::terminate, tells its reason right before.
_LINES_BEFORE = 5
# An excerpt stays one: stacks of pytest are deep.
_MOST_FRAMES = 25


def excerpt(log: str) -> list[str]:
    """Returns the lines around the first fatal error of a rank's log; none if there is none."""
    lines = log.splitlines()
    fatal = next((i for i, line in enumerate(lines) if _FATAL in line), None)
    if fatal is None:
        return []
    found = lines[max(fatal - _LINES_BEFORE, 0) : fatal + 1]
    for start in (_CURRENT, _NATIVE):
        begin = next((i for i in range(fatal, len(lines)) if lines[i].startswith(start)), None)
        if begin is not None:
            stack = lines[begin : begin + 1 + _MOST_FRAMES]
            found += stack[: stack.index("")] if "" in stack else stack
    return found
