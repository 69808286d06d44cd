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
  // The root's outputs are its inputs, from which it sends.
  absl::StatusOr<Request> MakeRequest(OpKernelContext* context, Group& group) const override {
    const Communicator& communicator = group.communicator();
    if (root_ < 0 || root_ >= communicator.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", communicator.world_rank(), ": Expected a root in [0, ",
                       communicator.size(), "). Received: ", root_, ". Pass a rank of the group."));
    }
    const bool is_root = root_ == communicator.rank();
    BroadcastTensors tensors{name(), "", static_cast<int>(root_), {}, {}};
    for (int i = 0; i < context->num_outputs(); ++i) {
      const Tensor& input = context->input(1 + i);
      Tensor* output = nullptr;
      if (is_root) {
        context->set_output(i, input);
      } else {
        TF_RETURN_IF_ERROR(context->allocate_output(i, input.shape(), &output));
      }
      absl::StrAppend(&tensors.signature, i == 0 ? "" : ", ", DataTypeString(input.dtype()),
                      input.shape().DebugString());
      tensors.buffers.push_back(is_root ? input.data() : output->data());
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
