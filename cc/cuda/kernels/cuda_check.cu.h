// Errors of the CUDA runtime as ours.
#ifndef ADASUM_CUDA_KERNELS_CUDA_CHECK_CU_H_
#define ADASUM_CUDA_KERNELS_CUDA_CHECK_CU_H_

#include <cuda_runtime_api.h>

#include <string>

#include "cc/core/error.h"

namespace adasum {

// Throws Internal with CUDA's own words unless `code` is cudaSuccess.
inline void CheckCuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // so that the next call does not report it again
  throw Error(ErrorCode::kInternal, std::string(call) + " failed: " + cudaGetErrorString(code));
}

}  // namespace adasum

#endif  // ADASUM_CUDA_KERNELS_CUDA_CHECK_CU_H_
