// Requests whose tensors are in the memory of a CUDA device. No header of CUDA: ops include it.
#ifndef ADASUM_CUDA_CUDA_STATE_H_
#define ADASUM_CUDA_CUDA_STATE_H_

#include <memory>

#include "cc/bootstrap/device_state.h"
#include "cc/engine/communicator_options.h"

namespace adasum {

// For the requests of one communicator, which run one after the other. Each replica gets a stream
// and buffers of its own at its first request.
std::shared_ptr<DeviceState> MakeCudaState(int device, const CudaOptions& options);

}  // namespace adasum

#endif  // ADASUM_CUDA_CUDA_STATE_H_
