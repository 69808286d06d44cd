"""Runs ruff, ruff format and clang-format over the checkout; --fix repairs what they can."""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIME_LIMIT_SECONDS = 120
_CXX = ("*.cc", "*.h", "*.inc", "*.cu")
_SKIPPED = ("bazel-", ".", "dist")


def main(argv: list[str] | None = None) -> int:
    """Runs every linter, also after one has failed; returns 0 if all were content."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="repair what can be repaired")
    fix = parser.parse_args(argv).fix
    failed = [name for name, command in commands(fix).items() if _run(command) != 0]
    if failed:
        print(f"lint: {', '.join(failed)} failed; `make format` may repair it", file=sys.stderr)
    return 1 if failed else 0


def commands(fix: bool = False) -> dict[str, list[str]]:
    """Returns the command line of every linter by its name.

    Args:
      fix: repair instead of report.
    """
    scripts = Path(sysconfig.get_path("scripts"))
    sources = [str(path) for path in cxx_sources()]
    ruff = [str(scripts / "ruff")]
    cache = [] if fix else ["--no-cache"]
    found = {
        "ruff check": [*ruff, "check", *cache, *(["--fix"] if fix else []), str(ROOT)],
        "ruff format": [*ruff, "format", *cache, *([] if fix else ["--check"]), str(ROOT)],
    }
    if sources:
        mode = ["-i"] if fix else ["--dry-run", "-Werror"]
        found["clang-format"] = [str(scripts / "clang-format"), *mode, *sources]
    return found


def cxx_sources() -> list[Path]:
    """Returns the C++ and CUDA sources of the checkout."""
    folders = [path for path in ROOT.iterdir() if path.is_dir()]
    folders = [path for path in folders if not path.name.startswith(_SKIPPED)]
    return sorted(source for folder in folders for kind in _CXX for source in folder.rglob(kind))


def _run(command: list[str]) -> int:
    done = subprocess.run(command, cwd=ROOT, timeout=TIME_LIMIT_SECONDS, check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
