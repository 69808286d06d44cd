#include <memory>
#include <vector>

#include "cc/collectives/partial_allreduce.h"
#include "cc/ops/dtypes.h"
#include "cc/ops/request_op.h"
#include "cc/ops/shapes.h"

namespace adasum {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Inputs: the communicator, this rank's tensors, and a turn for rounds that wait. Outputs: what its
// round gave, and how many rounds were over when it came.
class PartialAllreduceOp : public RequestOp {
 public:
  explicit PartialAllreduceOp(OpKernelConstruction* context) : RequestOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("num_tensors", &num_tensors_));
    OP_REQUIRES_OK(context, context->GetAttr("reductions", &reductions_));
    OP_REQUIRES_OK(context, context->GetAttr("group_size", &group_size_));
    OP_REQUIRES_OK(context, context->GetAttr("waits", &waits_));
    OP_REQUIRES(
        context, static_cast<int>(reductions_.size()) == num_tensors_,
        absl::InvalidArgumentError(absl::StrCat("Expected a reduction for each of ", num_tensors_,
                                                " tensors. Received: ", reductions_.size(), ".")));
  }

 private:
  absl::StatusOr<Request> MakeRequest(OpKernelContext* context, Group&) const override {
    PartialTensors tensors;
    tensors.name = name();
    tensors.dtype = ToDType(input_type(1));
    tensors.reductions = reductions_;
    tensors.group_size = group_size_;
    const Tensor& turn = context->input(1 + num_tensors_);
    if (!tensorflow::TensorShapeUtils::IsScalar(turn.shape())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Expected one turn, a scalar. Received: shape ", turn.shape().DebugString(), "."));
    }
    if (waits_) tensors.turn = turn.scalar<int64_t>()();
    // What this rank contributes until its next call; so nobody writes the results over them.
    const auto kept = std::make_shared<std::vector<Tensor>>();
    for (int i = 0; i < num_tensors_; ++i) {
      const Tensor& input = context->input(1 + i);
      kept->push_back(input);
      tensors.shapes.push_back(ToShape(input.shape()));
      tensors.inputs.push_back(input.data());
      Tensor* output = nullptr;
      TF_RETURN_IF_ERROR(context->allocate_output(i, input.shape(), &output));
      tensors.outputs.push_back(output->data());
    }
    tensors.kept = kept;
    Tensor* num_behind = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(num_tensors_, {}, &num_behind));
    tensors.num_behind = static_cast<int64_t*>(num_behind->data());
    return PartialAllreduceRequest(std::move(tensors));
  }

  int num_tensors_;
  std::vector<std::string> reductions_;
  int group_size_;
  bool waits_;
};

class PartialResetOp : public RequestOp {
 public:
  explicit PartialResetOp(OpKernelConstruction* context) : RequestOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("restarts", &restarts_));
  }

 private:
  absl::StatusOr<Request> MakeRequest(OpKernelContext*, Group&) const override {
    return PartialResetRequest(restarts_);
  }

  bool restarts_;
};

REGISTER_KERNEL_BUILDER(Name("AdasumPartialAllreduce").Device(tensorflow::DEVICE_CPU),
                        PartialAllreduceOp);
REGISTER_KERNEL_BUILDER(Name("AdasumPartialReset").Device(tensorflow::DEVICE_CPU), PartialResetOp);

}  // namespace
}  // namespace adasum
