"""Writes a wheel from the files of the Python packages and the native library.

Equal inputs give an equal wheel, byte by byte: entries are sorted and carry one fixed date.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import zipfile
from pathlib import Path

PACKAGE = "tf_adasum"
PACKAGES = (PACKAGE, "adasumrun")
_DATE = (1980, 1, 1, 0, 0, 0)
_SUMMARY = "Adasum gradient combining for TensorFlow and Keras"


def main(argv: list[str] | None = None) -> None:
    """Reads the command line of //tools:wheel.bzl and writes the wheel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True, help="the wheel")
    parser.add_argument("--version", required=True, help="version of the package")
    parser.add_argument("--require", action="append", default=[], help="a requirement of it")
    parser.add_argument("--readme", required=True, type=Path, help="description, Markdown")
    parser.add_argument("--library", required=True, type=Path, help="the native library")
    parser.add_argument("--preload", required=True, type=Path, help="what ranks preload")
    parser.add_argument("sources", nargs="+", help="files below folders of packages")
    options = parser.parse_args(argv)
    entries = {_name_in_wheel(source): Path(source).read_bytes() for source in options.sources}
    entries[f"{PACKAGE}/_native.so"] = options.library.read_bytes()
    entries[f"{PACKAGE}/_arena.so"] = options.preload.read_bytes()
    entries.update(_metadata(options))
    _write(options.output, entries, f"{PACKAGE}-{options.version}.dist-info")


def _name_in_wheel(source: str) -> str:
    """Returns the path from the package on; built files lie below bazel-out/.../bin."""
    parts = Path(source).parts
    first = next(index for index, part in enumerate(parts) if part in PACKAGES)
    return "/".join(parts[first:])


def _metadata(options: argparse.Namespace) -> dict[str, bytes]:
    python, abi, platform = options.output.removesuffix(".whl").split("-")[-3:]
    major, minor = python[2], python[3:]
    description = [
        "Metadata-Version: 2.1",
        "Name: tf-adasum",
        f"Version: {options.version}",
        f"Summary: {_SUMMARY}",
        f"Requires-Python: =={major}.{minor}.*",
        *(f"Requires-Dist: {requirement}" for requirement in options.require),
        "Description-Content-Type: text/markdown",
        "",
        options.readme.read_text(),
    ]
    wheel = ["Wheel-Version: 1.0", "Generator: tf_adasum", "Root-Is-Purelib: false"]
    wheel.append(f"Tag: {python}-{abi}-{platform}")
    scripts = ["[console_scripts]", "adasumrun = adasumrun.cli:main"]
    folder = f"{PACKAGE}-{options.version}.dist-info"
    texts = {"METADATA": description, "WHEEL": wheel, "entry_points.txt": scripts}
    return {f"{folder}/{name}": "\n".join([*lines, ""]).encode() for name, lines in texts.items()}


def _write(output: str, entries: dict[str, bytes], folder: str) -> None:
    record = []
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name in sorted(entries):
            wheel.writestr(_entry(name), entries[name])
            digest = base64.urlsafe_b64encode(hashlib.sha256(entries[name]).digest())
            hashed = digest.rstrip(b"=").decode()
            record.append(f"{name},sha256={hashed},{len(entries[name])}")
        record.append(f"{folder}/RECORD,,")
        wheel.writestr(_entry(f"{folder}/RECORD"), "\n".join([*record, ""]))


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
    return entry


if __name__ == "__main__":
    main()
