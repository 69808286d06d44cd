#include <cstring>

#include "cc/collectives/broadcast.h"
#include "cc/ops/request_op.h"

namespace adasum {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class BroadcastOp : public RequestOp {
 public:
  explicit BroadcastOp(OpKernelConstruction* context) : RequestOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("root", &root_));
  }

 private:
  // The outputs start as copies of the inputs; the root sends from its own.
  absl::StatusOr<Request> MakeRequest(OpKernelContext* context,
                                      const Communicator& communicator) const override {
    if (root_ < 0 || root_ >= communicator.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Expected a root in [0, ", communicator.size(), "). Received: ", root_));
    }
    BroadcastTensors tensors{name(), "", static_cast<int>(root_), {}, {}};
    for (int i = 0; i < context->num_outputs(); ++i) {
      const Tensor& input = context->input(1 + i);
      Tensor* output = nullptr;
      TF_RETURN_IF_ERROR(context->allocate_output(i, input.shape(), &output));
      if (input.TotalBytes() > 0) {
        std::memcpy(output->data(), input.data(), input.TotalBytes());
      }
      absl::StrAppend(&tensors.signature, i == 0 ? "" : ", ", DataTypeString(input.dtype()),
                      input.shape().DebugString());
      tensors.buffers.push_back(output->data());
      tensors.num_bytes.push_back(static_cast<int64_t>(input.TotalBytes()));
    }
    return BroadcastRequest(std::move(tensors));
  }

  int64_t root_;
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
