#include "cc/collectives/deadline_allreduce.h"
#include "cc/ops/dtypes.h"
#include "cc/ops/request_op.h"
#include "cc/ops/shapes.h"

namespace adasum {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Inputs: the communicator and this rank's tensors. Outputs: the results, what of this rank's
// tensors is not in them, and which share of all ranks' elements that is.
class DeadlineAllreduceOp : public RequestOp {
 public:
  explicit DeadlineAllreduceOp(OpKernelConstruction* context) : RequestOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("num_tensors", &num_tensors_));
    OP_REQUIRES_OK(context, context->GetAttr("reductions", &reductions_));
    OP_REQUIRES_OK(context, context->GetAttr("milliseconds", &milliseconds_));
    OP_REQUIRES_OK(context, context->GetAttr("max_left_out", &max_left_out_));
    OP_REQUIRES(
        context, static_cast<int>(reductions_.size()) == num_tensors_,
        absl::InvalidArgumentError(absl::StrCat("Expected a reduction for each of ", num_tensors_,
                                                " tensors. Received: ", reductions_.size(), ".")));
  }

 private:
  absl::StatusOr<Request> MakeRequest(OpKernelContext* context, Group&) const override {
    DeadlineTensors tensors;
    tensors.name = name();
    tensors.dtype = ToDType(input_type(1));
    tensors.reductions = reductions_;
    tensors.milliseconds = milliseconds_;
    tensors.max_left_out = max_left_out_;
    for (int i = 0; i < num_tensors_; ++i) {
      const Tensor& input = context->input(1 + i);
      tensors.shapes.push_back(ToShape(input.shape()));
      tensors.inputs.push_back(input.data());
      Tensor* output = nullptr;
      TF_RETURN_IF_ERROR(context->allocate_output(i, input.shape(), &output));
      tensors.outputs.push_back(output->data());
      Tensor* left_out = nullptr;
      TF_RETURN_IF_ERROR(context->forward_input_or_allocate_output({1 + i}, num_tensors_ + i,
                                                                   input.shape(), &left_out));
      tensors.left_out.push_back(left_out->data());
    }
    Tensor* share = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(2 * num_tensors_, {}, &share));
    tensors.share = static_cast<double*>(share->data());
    return DeadlineAllreduceRequest(std::move(tensors));
  }

  int num_tensors_;
  std::vector<std::string> reductions_;
  float milliseconds_;
  float max_left_out_;
};

REGISTER_KERNEL_BUILDER(Name("AdasumDeadlineAllreduce").Device(tensorflow::DEVICE_CPU),
                        DeadlineAllreduceOp);

}  // namespace
}  // namespace adasum
