#include "cc/bootstrap/registry.h"
#include "cc/ops/communicator_resource.h"
#include "cc/ops/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"

namespace adasum {

absl::Status LookUpGroup(tensorflow::OpKernelContext* context, std::shared_ptr<Group>* group) {
  const tensorflow::Tensor& input = context->input(0);
  if (input.NumElements() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("Expected the handle of one communicator. Received: a tensor of shape ",
                     input.shape().DebugString(), "."));
  }
  const auto& handle = input.flat<tensorflow::ResourceHandle>()(0);
  absl::StatusOr<CommunicatorResource*> resource = handle.GetResource<CommunicatorResource>();
  if (!resource.ok()) return resource.status();
  *group = (*resource)->group();
  return absl::OkStatus();
}

namespace {

class CommunicatorOp : public tensorflow::OpKernel {
 public:
  explicit CommunicatorOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("id", &id_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    std::shared_ptr<Group> group;
    OP_REQUIRES_OK(context, StatusOf([&] {
                     group = FindGroup(id_);
                     return absl::OkStatus();
                   }));
    tensorflow::Tensor handle(tensorflow::DT_RESOURCE, {});
    // Reference-counted: the resource lives as long as the last tensor that holds the handle.
    handle.scalar<tensorflow::ResourceHandle>()() =
        tensorflow::ResourceHandle::MakeRefCountingHandle(
            new CommunicatorResource(std::move(group)), context->device()->name());
    context->set_output(0, handle);
  }

 private:
  int64_t id_;
};

REGISTER_KERNEL_BUILDER(Name("AdasumCommunicator").Device(tensorflow::DEVICE_CPU), CommunicatorOp);
#if defined(ADASUM_CUDA)
// The handle is a thing of the host on any device; TensorFlow runs ops where their handle was made.
REGISTER_KERNEL_BUILDER(
    Name("AdasumCommunicator").Device(tensorflow::DEVICE_GPU).HostMemory("communicator"),
    CommunicatorOp);
#endif

}  // namespace
}  // namespace adasum
