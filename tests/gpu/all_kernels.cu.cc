// Launches every kernel on every dtype, aligned and not, on memory with no room to spare: for
// compute-sanitizer, which finds what lies outside, and races, where a test of values does not
// look. Without PyTorch, whose own launches it would check as well.

#include <cuda_runtime.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

#include "cc/cuda/kernels/arithmetic_cuda.h"
#include "cc/cuda/kernels/cuda_check.cu.h"

namespace adasum {
namespace {

struct CudaFree {
  void operator()(void* bytes) const { cudaFree(bytes); }
};
using DeviceMemory = std::unique_ptr<void, CudaFree>;

DeviceMemory Allocate(int64_t num_bytes) {
  void* bytes = nullptr;
  if (num_bytes == 0) return nullptr;
  CheckCuda(cudaMalloc(&bytes, num_bytes), "cudaMalloc");
  CheckCuda(cudaMemset(bytes, 0, num_bytes), "cudaMemset");
  return DeviceMemory(bytes);
}

// A vector that begins `shift` elements into its memory and ends where that does.
struct Vector {
  Vector(int64_t count, int64_t shift, int64_t element_bytes)
      : memory(Allocate((count + shift) * element_bytes)),
        begin(static_cast<char*>(memory.get()) + shift * element_bytes) {}
  DeviceMemory memory;
  void* begin;
};

void LaunchAll(DType dtype, bool misaligned) {
  const std::vector<int64_t> counts = {0, 1, 31, 32, 33, 1023, 100003, 8192, 65536};
  const int64_t bytes = ElementBytes(dtype);
  std::vector<Vector> vectors;
  std::vector<Piece> pieces;
  for (int64_t segment = 0; segment < static_cast<int64_t>(counts.size()); ++segment) {
    for (int64_t operand = 0; operand < 4; ++operand) {
      vectors.emplace_back(counts[segment], misaligned ? (segment + operand) % 5 : 0, bytes);
    }
    const Vector* four = &vectors[vectors.size() - 4];
    pieces.push_back({segment, four[0].begin, four[1].begin, four[2].begin,
                      segment % 3 == 0 ? nullptr : four[3].begin, counts[segment]});
  }
  const int64_t num_chunks = CountCudaChunks(pieces, bytes), num_pieces = pieces.size();
  std::vector<char> list(CudaWorkBytes(num_pieces, num_chunks));
  WriteCudaWork(pieces, bytes, list.data());
  DeviceMemory on_device = Allocate(list.size());
  CheckCuda(cudaMemcpy(on_device.get(), list.data(), list.size(), cudaMemcpyHostToDevice),
            "cudaMemcpy");
  DeviceMemory moments = Allocate(num_pieces * sizeof(Moments));
  DeviceMemory partials = Allocate(num_chunks * sizeof(Moments));
  DeviceMemory arrivals = Allocate(num_pieces * sizeof(unsigned));
  DeviceMemory coefficients = Allocate(num_pieces * sizeof(Coefficients));
  CudaLaunch launch = {dtype, CudaWorkAt(on_device.get(), num_pieces, num_chunks), nullptr};
  if (IsFloating(dtype)) {
    LaunchMoments(launch,
                  {static_cast<Moments*>(moments.get()), static_cast<Moments*>(partials.get()),
                   static_cast<unsigned*>(arrivals.get())});
    LaunchCombine(launch, static_cast<Coefficients*>(coefficients.get()));
  }
  LaunchAdd(launch);
  if (dtype == DType::kBool) {
    LaunchLogicalAnd(launch);
  } else {
    LaunchDivide(launch, 3);
  }
  LaunchCopy(launch);
  CheckCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace
}  // namespace adasum

int main() {
  using adasum::DType;
  try {
    for (DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64,
                        DType::kInt32, DType::kInt64, DType::kBool}) {
      for (bool misaligned : {false, true}) adasum::LaunchAll(dtype, misaligned);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "all_kernels: %s\n", error.what());
    return 1;
  }
  std::puts("all_kernels: done");
  return 0;
}
