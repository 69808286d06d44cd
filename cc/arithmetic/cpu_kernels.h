// The table of loops that cpu_kernels.inc fills once per instruction set.
#ifndef ADASUM_ARITHMETIC_CPU_KERNELS_H_
#define ADASUM_ARITHMETIC_CPU_KERNELS_H_

#include <cstdint>

namespace adasum {

// The most vectors that are weighed at once.
constexpr int kMostWeighed = 8;

using MomentsLoop = void (*)(const void* left, const void* right, int64_t n, double* sums);
// sums[0..3] += the products of left[0] and left[1] with right[0] and right[1].
using CrossLoop = void (*)(const void* const* left, const void* const* right, int64_t n,
                           double* sums);
using CombineLoop = void (*)(const void* left, const void* right, double left_coefficient,
                             double right_coefficient, int64_t n, void* out);
// out = the weighted sum of `num_operands` vectors.
using WeighLoop = void (*)(const void* const* operands, const double* weights, int num_operands,
                           int64_t n, void* out);
using BinaryLoop = void (*)(const void* left, const void* right, int64_t n, void* out);
using CopyLoop = void (*)(void* to, const void* from, int64_t num_bytes);
using DivideLoop = void (*)(void* values, int64_t n, int64_t divisor);

// Indexed by DType; null where the operation does not exist for the type.
struct CpuKernels {
  const char* instruction_set;
  MomentsLoop moments[7];
  CrossLoop cross[7];
  CombineLoop combine[7];
  WeighLoop weigh[7];
  BinaryLoop add[7];
  BinaryLoop min[7];
  BinaryLoop max[7];
  BinaryLoop multiply[7];
  DivideLoop divide[7];
  // Writes past the caches: no line is read only to be overwritten, and nothing else is displaced.
  // Other threads see it after a store fence.
  CopyLoop stream;
};

// Each lives in a translation unit of its own, compiled for that instruction set.
const CpuKernels& BaselineKernels();
#if defined(__x86_64__)
const CpuKernels& Avx2Kernels();
const CpuKernels& Avx512Kernels();
#endif

}  // namespace adasum

#endif  // ADASUM_ARITHMETIC_CPU_KERNELS_H_
