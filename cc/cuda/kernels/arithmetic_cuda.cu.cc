#include "cc/cuda/kernels/arithmetic_cuda.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "cc/cuda/kernels/cuda_check.cu.h"
#include "cc/cuda/kernels/cuda_elementwise.cu.h"
#include "cc/cuda/kernels/cuda_moments.cu.h"

namespace adasum {
namespace {

// As many blocks as the device holds at once, so that all multiprocessors end together.
int GridSize(const void* kernel, int64_t num_chunks) {
  int device = 0, num_multiprocessors = 0, blocks_each = 0;
  CheckCuda(cudaGetDevice(&device), "cudaGetDevice");
  CheckCuda(cudaDeviceGetAttribute(&num_multiprocessors, cudaDevAttrMultiProcessorCount, device),
            "cudaDeviceGetAttribute");
  CheckCuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_each, kernel, cuda::kThreads, 0),
            "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return static_cast<int>(std::min<int64_t>(num_chunks, num_multiprocessors * blocks_each));
}

template <typename... Arguments>
void Launch(void (*kernel)(CudaWork, Arguments...), const CudaLaunch& launch,
            Arguments... arguments) {
  if (launch.work.num_chunks == 0) return;
  cudaLaunchConfig_t config = {};
  config.gridDim = GridSize(reinterpret_cast<const void*>(kernel), launch.work.num_chunks);
  config.blockDim = cuda::kThreads;
  config.stream = launch.stream;
  CheckCuda(cudaLaunchKernelEx(&config, kernel, launch.work, arguments...), "A kernel's launch");
}

template <typename Operation>
void LaunchElementwise(const CudaLaunch& launch, Operation operation) {
  Launch(cuda::ElementwiseKernel<Operation>, launch, operation,
         CudaChunkElements(sizeof(typename Operation::In)));
}

[[noreturn]] void Refuse(DType dtype, const char* operation) {
  throw Error(ErrorCode::kInvalidArgument, std::string("Expected a dtype that has ") + operation +
                                               ". Received: " + DTypeName(dtype));
}

}  // namespace

void LaunchMoments(const CudaLaunch& launch, const CudaMomentsMemory& memory) {
  switch (launch.dtype) {
    case DType::kFloat16:
      return Launch(cuda::MomentsKernel<__half>, launch, memory);
    case DType::kBFloat16:
      return Launch(cuda::MomentsKernel<__nv_bfloat16>, launch, memory);
    case DType::kFloat32:
      return Launch(cuda::MomentsKernel<float>, launch, memory);
    case DType::kFloat64:
      return Launch(cuda::MomentsKernel<double>, launch, memory);
    default:
      Refuse(launch.dtype, "a dot product");
  }
}

void LaunchCombine(const CudaLaunch& launch, const Coefficients* coefficients) {
  switch (launch.dtype) {
    case DType::kFloat16:
      return LaunchElementwise(launch, cuda::SmallCombineOperation<__half>{coefficients});
    case DType::kBFloat16:
      return LaunchElementwise(launch, cuda::SmallCombineOperation<__nv_bfloat16>{coefficients});
    case DType::kFloat32:
      return LaunchElementwise(launch, cuda::CombineOperation<float>{coefficients});
    case DType::kFloat64:
      return LaunchElementwise(launch, cuda::CombineOperation<double>{coefficients});
    default:
      Refuse(launch.dtype, "a weighted sum");
  }
}

void LaunchAdd(const CudaLaunch& launch) {
  switch (launch.dtype) {
    case DType::kFloat16:
      return LaunchElementwise(launch, cuda::SmallAddOperation<__half>{});
    case DType::kBFloat16:
      return LaunchElementwise(launch, cuda::SmallAddOperation<__nv_bfloat16>{});
    case DType::kFloat32:
      return LaunchElementwise(launch, cuda::AddOperation<float>{});
    case DType::kFloat64:
      return LaunchElementwise(launch, cuda::AddOperation<double>{});
    case DType::kInt32:
      return LaunchElementwise(launch, cuda::AddOperation<uint32_t>{});
    case DType::kInt64:
      return LaunchElementwise(launch, cuda::AddOperation<uint64_t>{});
    case DType::kBool:
      return LaunchElementwise(launch, cuda::OrOperation{});
  }
}

void LaunchLogicalAnd(const CudaLaunch& launch) {
  if (launch.dtype != DType::kBool) Refuse(launch.dtype, "a logical and");
  LaunchElementwise(launch, cuda::AndOperation{});
}

void LaunchDivide(const CudaLaunch& launch, int64_t divisor) {
  const float by = static_cast<float>(divisor);
  switch (launch.dtype) {
    case DType::kFloat16:
      return LaunchElementwise(launch, cuda::SmallDivideOperation<__half>{by});
    case DType::kBFloat16:
      return LaunchElementwise(launch, cuda::SmallDivideOperation<__nv_bfloat16>{by});
    case DType::kFloat32:
      return LaunchElementwise(launch, cuda::DivideOperation<float>{by});
    case DType::kFloat64:
      return LaunchElementwise(launch, cuda::DivideOperation<double>{static_cast<double>(divisor)});
    case DType::kInt32:
      return LaunchElementwise(launch,
                               cuda::DivideOperation<int32_t>{static_cast<int32_t>(divisor)});
    case DType::kInt64:
      return LaunchElementwise(launch, cuda::DivideOperation<int64_t>{divisor});
    default:
      Refuse(launch.dtype, "a quotient");
  }
}

void LaunchCopy(const CudaLaunch& launch) {
  switch (ElementBytes(launch.dtype)) {
    case 1:
      return LaunchElementwise(launch, cuda::CopyOperation<uint8_t>{});
    case 2:
      return LaunchElementwise(launch, cuda::CopyOperation<uint16_t>{});
    case 4:
      return LaunchElementwise(launch, cuda::CopyOperation<uint32_t>{});
    default:
      return LaunchElementwise(launch, cuda::CopyOperation<uint64_t>{});
  }
}

}  // namespace adasum
