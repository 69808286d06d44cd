#!/bin/sh
# All that needs a GPU, in one command: builds the kernels with nvcc, then correctness, memory checker and bandwidth.
# Needs nvcc 12.3 or newer and a python3 with NumPy, pytest and one of PyTorch and CuPy; no Bazel, TensorFlow or network.
# Usage: tests/gpu/run.sh [PYTHON]
set -u
cd "$(dirname "$0")/../.." || exit 1
python="${1:-python3}"
nvcc="$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")"
build=tests/gpu/build
failed=""

step() {
  name="$1"
  shift
  echo "===== $name: $*"
  "$@" || failed="$failed $name"
}

if ! nvidia-smi -L; then
  echo "run.sh: expected an NVIDIA GPU. Received: none. Run this on a machine that has one." >&2
  exit 1
fi
mkdir -p "$build"
# Machine code for the GPU that is here.
flags="-std=c++17 -O3 --generate-line-info -arch=native -I."
sources="cc/arithmetic/arithmetic_cuda.cu.cc cc/arithmetic/cuda_work.cc cc/core/dtype.cc"
# flags and sources are lists of words.
# shellcheck disable=SC2086
step library "$nvcc" -x cu $flags -Xcompiler -fPIC -shared -o "$build/libadasum_kernels.so" $sources tests/gpu/capi.cc
# shellcheck disable=SC2086
step program "$nvcc" -x cu $flags -o "$build/all_kernels" $sources tests/gpu/all_kernels.cu.cc
[ -z "$failed" ] || exit 1

export PYTHONPATH="$PWD" PYTHONUNBUFFERED=1
step correctness timeout 300 "$python" tests/run_pytest.py -q tests/gpu/kernels_test.py
sanitizer="$(command -v compute-sanitizer || echo "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer")"
for tool in memcheck racecheck synccheck initcheck; do
  step "$tool" timeout 300 "$sanitizer" --tool "$tool" --error-exitcode 3 "$build/all_kernels"
done
step bandwidth timeout 300 "$python" -m tests.gpu.bandwidth

if [ -n "$failed" ]; then
  echo "run.sh: FAILED:$failed"
  exit 1
fi
echo "run.sh: all passed"
