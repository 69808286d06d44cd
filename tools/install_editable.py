"""Makes this checkout importable for this interpreter, with the adasumrun command.

Nothing is downloaded or copied: a .pth file names the checkout, a script names the launcher.
Programs run by Bazel see their own runfiles only, lest a test pass on a file it does not declare.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_PATH = """import os, sys; 'RUNFILES_DIR' in os.environ or sys.path.append({root!r})
"""

_SCRIPT = """#!{python}
import sys

from adasumrun.cli import main

sys.exit(main())
"""


def main() -> None:
    """Writes the .pth file and the script."""
    paths = sysconfig.get_paths()
    Path(paths["purelib"], "tf_adasum_checkout.pth").write_text(_PATH.format(root=str(ROOT)))
    script = Path(paths["scripts"], "adasumrun")
    script.write_text(_SCRIPT.format(python=sys.executable))
    script.chmod(0o755)


if __name__ == "__main__":
    main()
