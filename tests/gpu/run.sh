#!/bin/sh
# All that needs a GPU, in one command: builds with nvcc, then values, allreduces and memory checker, side by side, then
# bandwidth and, where the python has TensorFlow and this checkout was built for it, two ranks that train on one GPU.
# Needs g++, nvcc 12.3 or newer and a python3 with NumPy, pytest and one of PyTorch and CuPy; no Bazel, TensorFlow, MPI or
# network. With --built it takes what build.sh has built, here or elsewhere.
# Usage: tests/gpu/run.sh [--built] [PYTHON]
set -u
cd "$(dirname "$0")/../.." || exit 1
built=""
[ "${1:-}" = --built ] && built=yes && shift
python="${1:-python3}"
build=tests/gpu/build
sanitizer="$(command -v compute-sanitizer || echo "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer")"
# Seconds that one step may take.
limit="${ADASUM_GPU_LIMIT:-400}"
steps=""
failed=""

if ! nvidia-smi -L; then
  echo "run.sh: expected an NVIDIA GPU. Received: none. Run this on a machine that has one." >&2
  exit 1
fi
[ -n "$built" ] || tests/gpu/build.sh || exit 1
export PYTHONPATH="$PWD" PYTHONUNBUFFERED=1

# start NAME COMMAND...: runs it beside the others.
start() {
  name="$1"
  shift
  steps="$steps $name"
  (
    began=$(date +%s)
    timeout "$limit" "$@" >"$build/$name.log" 2>&1
    echo "$? $(($(date +%s) - began))" >"$build/$name.ended"
  ) &
}

# Waits for all that was started, and says how it went.
finish() {
  wait
  for name in $steps; do
    read -r status seconds <"$build/$name.ended"
    echo "===== $name: status $status, $seconds s"
    tail -n 40 "$build/$name.log"
    [ "$status" = 0 ] || failed="$failed $name"
  done
  steps=""
}

start correctness "$python" tests/runner/run_pytest.py -q tests/gpu/kernels_test.py
for test in exchange processes replicas; do
  start "$test" "$build/${test}_test"
done
start memcheck_exchange "$sanitizer" --tool memcheck --error-exitcode 3 "$build/exchange_test"
for tool in memcheck racecheck synccheck initcheck; do
  start "$tool" "$sanitizer" --tool "$tool" --error-exitcode 3 "$build/all_kernels"
done
finish
# Alone, as it is timed.
start bandwidth "$python" -m tests.gpu.bandwidth
finish
if ! "$python" -c "import tensorflow"; then
  echo "run.sh: TensorFlow was NOT tested: $python has none."
elif ! "$python" -c "import tf_adasum"; then
  echo "run.sh: $python has TensorFlow, but no tf_adasum that was built for it: make build" >&2
  failed="$failed tensorflow"
else
  start tensorflow "$python" tests/runner/run_pytest.py -q tests/gpu/tensorflow_test.py
  finish
fi

if [ -n "$failed" ]; then
  echo "run.sh: FAILED:$failed"
  exit 1
fi
echo "run.sh: all passed"
