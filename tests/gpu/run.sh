#!/bin/sh
# All that needs a GPU, in one command: builds with nvcc, then values, allreduces, memory checker, bandwidth and, where the
# python has TensorFlow and this checkout was built for it, two ranks that train on one GPU.
# Needs g++, nvcc 12.3 or newer and a python3 with NumPy, pytest and one of PyTorch and CuPy; no Bazel, TensorFlow, MPI or
# network.
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
flags="-std=c++17 -O3 --generate-line-info -arch=${ADASUM_ARCH:-native} -I."
kernels="cc/cuda/kernels/arithmetic_cuda.cu.cc cc/cuda/kernels/cuda_work.cc cc/core/dtype.cc"
# The allreduces with their communication thread, and no MPI.
layers=$(ls cc/core/*.cc cc/reductions/*.cc cc/algorithms/*.cc cc/engine/*.cc cc/collectives/*.cc cc/transport/*.cc | grep -v -e mpi -e host_transport)
ranks="tests/cc/check.cc tests/cc/elements.cc tests/cc/lane_wire.cc tests/cc/processes.cc tests/cc/ranks.cc tests/cc/tree.cc tests/cc/worlds.cc"
exchange="$layers $ranks $(ls cc/arithmetic/*.cc | grep -v -e avx -e '[.]cu[.]cc')"
cuda="cc/cuda/kernels/arithmetic_cuda.cu.cc cc/cuda/*.cu.cc tests/gpu/requests.cu.cc"
# These are lists of words.
# shellcheck disable=SC2086
step library "$nvcc" -x cu $flags -Xcompiler -fPIC -shared -o "$build/libadasum_kernels.so" $kernels tests/gpu/capi.cc
# shellcheck disable=SC2086
step all_kernels "$nvcc" -x cu $flags -o "$build/all_kernels" $kernels tests/gpu/all_kernels.cu.cc
avx2="-Wno-psabi -mavx2 -mfma -mf16c"
step avx2 g++ -std=c++17 -O3 -I. $avx2 -c -o "$build/avx2.o" cc/arithmetic/cpu_kernels_avx2.cc
avx512="$avx2 -mavx512f -mavx512bw -mavx512dq -mavx512vl"
step avx512 g++ -std=c++17 -O3 -I. $avx512 -c -o "$build/avx512.o" cc/arithmetic/cpu_kernels_avx512.cc
# shellcheck disable=SC2086
step cuda "$nvcc" -x cu $flags -lib -o "$build/libcuda_parts.a" $cuda
# shellcheck disable=SC2086
step ranks "$nvcc" -std=c++17 -O2 -I. -lib -o "$build/libranks.a" $exchange
parts="$build/libcuda_parts.a $build/libranks.a $build/avx2.o $build/avx512.o"
for test in exchange processes replicas; do
  # shellcheck disable=SC2086
  step "$test" "$nvcc" -x cu $flags -c -o "$build/$test.o" "tests/gpu/${test}_test.cu.cc"
  # shellcheck disable=SC2086
  step "$test" "$nvcc" -o "$build/${test}_test" "$build/$test.o" $parts
done
[ -z "$failed" ] || exit 1

export PYTHONPATH="$PWD" PYTHONUNBUFFERED=1
step correctness timeout 300 "$python" tests/runner/run_pytest.py -q tests/gpu/kernels_test.py
step allreduces timeout 300 "$build/exchange_test"
step processes timeout 400 "$build/processes_test"
step replicas timeout 400 "$build/replicas_test"
sanitizer="$(command -v compute-sanitizer || echo "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer")"
step memcheck_allreduces timeout 400 "$sanitizer" --tool memcheck --error-exitcode 3 "$build/exchange_test"
for tool in memcheck racecheck synccheck initcheck; do
  step "$tool" timeout 300 "$sanitizer" --tool "$tool" --error-exitcode 3 "$build/all_kernels"
done
step bandwidth timeout 300 "$python" -m tests.gpu.bandwidth
if ! "$python" -c "import tensorflow"; then
  echo "run.sh: TensorFlow was NOT tested: $python has none."
elif ! "$python" -c "import tf_adasum"; then
  echo "run.sh: $python has TensorFlow, but no tf_adasum that was built for it: make build" >&2
  failed="$failed tensorflow"
else
  step tensorflow timeout 900 "$python" tests/runner/run_pytest.py -q tests/gpu/tensorflow_test.py
fi

if [ -n "$failed" ]; then
  echo "run.sh: FAILED:$failed"
  exit 1
fi
echo "run.sh: all passed"
