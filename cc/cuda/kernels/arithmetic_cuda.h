// Launchers of the CUDA kernels. Each puts one kernel on `stream` and returns: nothing is
// allocated, nothing waited for, so that a launch may be captured into a graph. Everything a
// kernel needs beside its operands is device memory of the caller. They throw Internal if the
// launch fails, and InvalidArgument for a dtype that does not have the operation.
#ifndef ADASUM_CUDA_KERNELS_ARITHMETIC_CUDA_H_
#define ADASUM_CUDA_KERNELS_ARITHMETIC_CUDA_H_

#include <cstdint>

#include "cc/core/arithmetic.h"
#include "cc/core/dtype.h"
#include "cc/cuda/kernels/cuda_work.h"

// As the CUDA runtime declares it; its headers stay in .cu files.
typedef struct CUstream_st* cudaStream_t;

namespace adasum {

// A list of pieces of one dtype, copied to device memory, and the stream that works on it.
struct CudaLaunch {
  DType dtype;
  CudaWork work;
  cudaStream_t stream;
};

// moments[i] = those of piece i, accumulated in float64. Floats only.
void LaunchMoments(const CudaLaunch& launch, const CudaMomentsMemory& memory);

// The next four write their results to `copy` as well, where a piece has one.
//
// out = c.left * left + c.right * right with c = coefficients[i] in device memory. Floats only.
void LaunchCombine(const CudaLaunch& launch, const Coefficients* coefficients);

// out = left + right; logical or for bool.
void LaunchAdd(const CudaLaunch& launch);

// out = left and right, for bool.
void LaunchLogicalAnd(const CudaLaunch& launch);

// out = left / divisor; integers truncate toward zero. Not for bool.
void LaunchDivide(const CudaLaunch& launch, int64_t divisor);

// out = left, which packs or unpacks a list of tensors.
void LaunchCopy(const CudaLaunch& launch);

}  // namespace adasum

#endif  // ADASUM_CUDA_KERNELS_ARITHMETIC_CUDA_H_
