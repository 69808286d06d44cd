// The tensors of a kernel on a GPU. Built where there is a CUDA toolkit.
#ifndef ADASUM_OPS_GPU_TENSORS_H_
#define ADASUM_OPS_GPU_TENSORS_H_

#include <memory>

#include "absl/status/status.h"
#include "cc/bootstrap/group.h"
#include "cc/collectives/device_tensors.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace adasum {

// They are ready when what TensorFlow has put on its stream so far is done, the earlier users of
// the outputs' memory included: call it when the outputs are allocated. Does not wait. Throws
// Error.
absl::Status FindGpuTensors(tensorflow::OpKernelContext* context, Group& group,
                            std::shared_ptr<DeviceTensors>* tensors);

}  // namespace adasum

#endif  // ADASUM_OPS_GPU_TENSORS_H_
