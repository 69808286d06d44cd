#!/bin/sh
# Builds this checkout with another TensorFlow, and runs the tests of the ops, the strategy and Keras with it.
# Usage: test_tensorflow.sh VERSION PYTHON BAZEL [FLAGS OF bazel test...], in the root of the checkout.
# Everything of that TensorFlow stays in .tensorflow/VERSION: the environment, configure.py's settings, Bazel's output.
set -eu
version="$1" python="$2" bazel="$3"
shift 3
if [ -z "$version" ]; then
  echo "test_tensorflow.sh: expected a version of TensorFlow. Received: none. Call: make test-tensorflow VERSION=2.16.2" >&2
  exit 1
fi
folder="$PWD/.tensorflow/$version"
mkdir -p "$folder"
"$python" tools/requirements_for.py "$version" >"$folder/arriving.txt"
if ! cmp --silent "$folder/arriving.txt" "$folder/requirements.txt"; then
  "$python" -m venv "$folder/venv"
  "$folder/venv/bin/python" -m pip install --disable-pip-version-check --quiet -r "$folder/arriving.txt"
  mv "$folder/arriving.txt" "$folder/requirements.txt"
fi
"$folder/venv/bin/python" configure.py --output="$folder/bazelrc"
# Bazel reads a file that is named so after .bazelrc.user, and what comes later holds.
# In this order the C++ ops, then a strategy of two processes, then Keras: what hangs on TensorFlow's version. What
# hangs on MPI or on the arithmetic alone, `make test` runs with the newest.
"$bazel" --output_base="$folder/bazel" --bazelrc="$folder/bazelrc" test --symlink_prefix=/ --keep_going \
  --test_tag_filters=-large_tensor,-full "$@" \
  //tests/contract/... //tests/mpi:collectives_of_one_test_1 //tests/mpi:collectives_test_2 \
  //tests/training:strategy_test_2 //tests/training:long_strategy_test_2 //tests/training:choices_test_2 \
  //tests/keras/... //tests/wheel/...
