#include "cc/collectives/broadcast.h"
#include "cc/ops/communicator_resource.h"
#include "cc/ops/kept_tensors.h"
#include "cc/ops/status.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace adasum {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class BroadcastOp : public AsyncOpKernel {
 public:
  explicit BroadcastOp(OpKernelConstruction* context) : AsyncOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("root", &root_));
    OP_REQUIRES_OK(context, context->GetAttr("tensor_name", &name_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    std::shared_ptr<Group> group;
    OP_REQUIRES_OK_ASYNC(context, LookUpGroup(context, &group), done);
    BroadcastTensors tensors{name_, "", static_cast<int>(root_), {}, {}};
    OP_REQUIRES_OK_ASYNC(context, Collect(context, &tensors), done);
    Broadcast(group->communicator(), std::move(tensors),
              [context, group, done](const Error* error) {
                KeepTensorsIfNeeded(error, context, group);
                context->SetStatus(ToStatus(error));
                done();
              });
  }

 private:
  // The outputs start as copies of the inputs; the root sends from its own.
  static absl::Status Collect(OpKernelContext* context, BroadcastTensors* tensors) {
    for (int i = 0; i < context->num_outputs(); ++i) {
      const Tensor& input = context->input(1 + i);
      Tensor* output = nullptr;
      TF_RETURN_IF_ERROR(context->allocate_output(i, input.shape(), &output));
      if (input.TotalBytes() > 0) {
        std::memcpy(output->data(), input.data(), input.TotalBytes());
      }
      absl::StrAppend(&tensors->signature, i == 0 ? "" : ", ", DataTypeString(input.dtype()),
                      input.shape().DebugString());
      tensors->buffers.push_back(output->data());
      tensors->num_bytes.push_back(static_cast<int64_t>(input.TotalBytes()));
    }
    return absl::OkStatus();
  }

  int64_t root_;
  std::string name_;
};

REGISTER_KERNEL_BUILDER(Name("AdasumBroadcast").Device(tensorflow::DEVICE_CPU), BroadcastOp);
#if defined(ADASUM_CUDA)
// For handles made on a GPU. Initial values travel once: through the host.
REGISTER_KERNEL_BUILDER(Name("AdasumBroadcast")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("communicator")
                            .HostMemory("inputs")
                            .HostMemory("outputs"),
                        BroadcastOp);
#endif

}  // namespace
}  // namespace adasum
