#!/bin/sh
# Installs from the distribution what is missing to build: venv and headers of Python, a C++ compiler, Bazel.
# Usage: install_system.sh PYTHON BAZEL
set -eu
python="$1"
bazel="$2"

case "$PWD" in *[[:space:]]*)
  echo "make: expected a path without spaces. Received: $PWD. Bazel refuses others: move the checkout." >&2
  exit 1
  ;;
esac
if [ -z "$python" ]; then
  echo "make: expected Python 3.10 to 3.13 on PATH. Received: none. Install one, or: make PYTHON=/path/to/python3" >&2
  exit 1
fi

packages=""
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$python" -c 'import ensurepip, venv' 2>/dev/null || packages="$packages python$version-venv"
"$python" -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
  packages="$packages python$version-dev"
command -v g++ >/dev/null || packages="$packages g++"
command -v "$bazel" >/dev/null || packages="$packages bazel-bootstrap"
[ -n "$packages" ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "make: expected apt-get to install$packages. Received: none. Install them by hand and call make again." >&2
  exit 1
fi
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"
echo "make: installing$packages"
export DEBIAN_FRONTEND=noninteractive
# The package lists of a fresh machine may be empty or old; packages is a list of words.
# shellcheck disable=SC2086
$sudo apt-get update -q && $sudo apt-get install -q -y --no-install-recommends $packages
