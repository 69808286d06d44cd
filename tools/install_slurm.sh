#!/bin/sh
# Installs Debian's Slurm and munge, which //tests/slurm starts by itself; their services stay as they are.
set -eu
if command -v slurmctld >/dev/null && command -v slurmd >/dev/null && command -v munged >/dev/null; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "make test-slurm: expected root and apt-get, or slurm-wlm and munge. Received: none. Install the two by hand and call make again." >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q && apt-get install -q -y --no-install-recommends slurm-wlm munge
