#include "cc/ops/gpu_tensors.h"

#include "cc/cuda/cuda_state.h"
#include "xla/stream_executor/stream.h"
#include "xla/stream_executor/stream_executor.h"

namespace adasum {

absl::Status FindGpuTensors(tensorflow::OpKernelContext* context, Group& group,
                            std::shared_ptr<DeviceTensors>* tensors) {
  auto* device_context = context->op_device_context();
  auto* stream = device_context == nullptr ? nullptr : device_context->stream();
  if (stream == nullptr || stream->platform_specific_handle().stream == nullptr) {
    return absl::InternalError(absl::StrCat("Expected a device with a CUDA stream. Received: ",
                                            context->device()->name()));
  }
  *tensors = group.StateOn(stream->parent()->device_ordinal(), &MakeCudaState)
                 ->Tensors(stream->platform_specific_handle().stream);
  return absl::OkStatus();
}

}  // namespace adasum
