#!/bin/sh
# Installs requirements.txt; with tensorflow in the place of tensorflow-cpu if this machine has an NVIDIA driver.
# Usage: install_requirements.sh PYTHON_OF_THE_ENVIRONMENT
set -eu
python="$1"
requirements=requirements.txt
if [ -e /proc/driver/nvidia/version ]; then
  requirements=$(dirname "$(dirname "$python")")/requirements-gpu.txt
  sed 's/^tensorflow-cpu==/tensorflow==/' requirements.txt >"$requirements"
fi
"$python" -m pip install --disable-pip-version-check --quiet --progress-bar on -r "$requirements"
# The oldest Keras of tf_adasum/versions.py, for the tests that run on it: beside the environment's.
oldest=$("$python" -c 'import runpy; print(runpy.run_path("tf_adasum/versions.py")["TESTED_KERAS"][-1])')
"$python" -m pip install --disable-pip-version-check --quiet --no-deps --upgrade \
  --target "$(dirname "$(dirname "$python")")/keras/$oldest" "keras==$oldest"
# Keras 2, for the test that it is refused. It asks for tensorflow, where tensorflow-cpu is.
"$python" -m pip install --disable-pip-version-check --quiet --no-deps tf_keras==2.21.0
