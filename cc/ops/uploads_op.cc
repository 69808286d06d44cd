#include "cc/collectives/uploads.h"
#include "cc/ops/dtypes.h"
#include "cc/ops/request_op.h"
#include "cc/ops/shapes.h"

namespace adasum {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Inputs: the communicator, whether this rank uploads, and its tensors. Outputs: the sums, and over
// how many ranks.
class UploadsOp : public RequestOp {
 public:
  explicit UploadsOp(OpKernelConstruction* context) : RequestOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("num_tensors", &num_tensors_));
  }

 private:
  absl::StatusOr<Request> MakeRequest(OpKernelContext* context, Group& group) const override {
    UploadTensors tensors;
    tensors.name = name();
    tensors.dtype = ToDType(input_type(2));
    const Tensor& uploads = context->input(1);
    if (uploads.NumElements() != 1) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", group.communicator().world_rank(),
                                                     ": Expected one bool, whether this rank "
                                                     "uploads. Received: a tensor of shape ",
                                                     uploads.shape().DebugString(),
                                                     ". Pass a scalar."));
    }
    tensors.uploads = uploads.flat<bool>()(0);
    for (int i = 0; i < num_tensors_; ++i) {
      const Tensor& input = context->input(2 + i);
      tensors.shapes.push_back(ToShape(input.shape()));
      tensors.inputs.push_back(input.data());
      Tensor* output = nullptr;
      TF_RETURN_IF_ERROR(
          context->forward_input_or_allocate_output({2 + i}, i, input.shape(), &output));
      tensors.outputs.push_back(output->data());
    }
    Tensor* num_uploads = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(num_tensors_, {}, &num_uploads));
    tensors.num_uploads = static_cast<int64_t*>(num_uploads->data());
    return UploadRequest(std::move(tensors));
  }

  int num_tensors_;
};

REGISTER_KERNEL_BUILDER(Name("AdasumUploads").Device(tensorflow::DEVICE_CPU), UploadsOp);

}  // namespace
}  // namespace adasum
