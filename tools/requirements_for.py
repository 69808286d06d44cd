"""Prints requirements.txt with another TensorFlow: requirements_for.py VERSION."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(version: str) -> None:
    """Replaces the pin of TensorFlow, and adds what tf_adasum/versions.py names beside it.

    TensorFlow before 2.21 asks for the tensorboard of its own version.
    """
    others = runpy.run_path(str(ROOT / "tf_adasum" / "versions.py"))["OTHER_REQUIREMENTS"]
    pins = (ROOT / "requirements.txt").read_text()
    pins = re.sub("(?m)^tensorboard==.*", "tensorboard", pins)
    print(re.sub("(?m)^tensorflow-cpu==.*", f"tensorflow-cpu=={version}", pins), end="")
    for requirement in others.get(version, ()):
        print(requirement)


if __name__ == "__main__":
    main(sys.argv[1])
