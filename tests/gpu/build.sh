#!/bin/sh
# Builds what tests/gpu/run.sh runs into tests/gpu/build. Needs nvcc 12.3 or newer and g++; no GPU if ADASUM_ARCH says for which
# one to build, e.g. ADASUM_ARCH=sm_90.
# Usage: tests/gpu/build.sh
set -eu
cd "$(dirname "$0")/../.."
nvcc="$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")"
build=tests/gpu/build
mkdir -p "$build"

run() {
  echo "===== $*"
  "$@"
}

# Machine code for the GPU that is here.
flags="-std=c++17 -O3 --generate-line-info -arch=${ADASUM_ARCH:-native} -I."
kernels="cc/cuda/kernels/arithmetic_cuda.cu.cc cc/cuda/kernels/cuda_work.cc cc/core/dtype.cc"
# The allreduces with their communication thread, and no MPI.
layers=$(ls cc/arena/*.cc cc/core/*.cc cc/algorithms/*.cc cc/engine/*.cc cc/collectives/*.cc cc/transport/*.cc | grep -v -e mpi -e host_transport -e preload)
ranks="tests/cc/check.cc tests/cc/elements.cc tests/cc/lane_wire.cc tests/cc/processes.cc tests/cc/ranks.cc tests/cc/tree.cc tests/cc/worlds.cc"
exchange="$layers $ranks $(ls cc/arithmetic/*.cc | grep -v -e avx -e '[.]cu[.]cc')"
cuda="cc/cuda/kernels/*.cc cc/cuda/*.cu.cc tests/gpu/requests.cu.cc"
# These are lists of words.
# shellcheck disable=SC2086
{
  run "$nvcc" -x cu $flags -Xcompiler -fPIC -shared -o "$build/libadasum_kernels.so" $kernels tests/gpu/capi.cc
  run "$nvcc" -x cu $flags -o "$build/all_kernels" $kernels tests/gpu/all_kernels.cu.cc
  avx2="-Wno-psabi -mavx2 -mfma -mf16c"
  run g++ -std=c++17 -O3 -I. $avx2 -c -o "$build/avx2.o" cc/arithmetic/cpu_kernels_avx2.cc
  avx512="$avx2 -mavx512f -mavx512bw -mavx512dq -mavx512vl"
  run g++ -std=c++17 -O3 -I. $avx512 -c -o "$build/avx512.o" cc/arithmetic/cpu_kernels_avx512.cc
  run "$nvcc" -x cu $flags -lib -o "$build/libcuda_parts.a" $cuda
  run "$nvcc" -std=c++17 -O2 -I. -lib -o "$build/libranks.a" $exchange
  # Reductions register themselves: nothing refers to them, so that a library of them would be left out.
  for reduction in cc/reductions/*.cc; do
    run g++ -std=c++17 -O2 -I. -c -o "$build/$(basename "$reduction" .cc).o" "$reduction"
    reductions="${reductions:-} $build/$(basename "$reduction" .cc).o"
  done
  parts="$reductions $build/libcuda_parts.a $build/libranks.a $build/avx2.o $build/avx512.o"
  for program in exchange_test processes_test replicas_test times; do
    run "$nvcc" -x cu $flags -c -o "$build/$program.o" "tests/gpu/$program.cu.cc"
    run "$nvcc" -o "$build/$program" "$build/$program.o" $parts
  done
}
