#include <cstring>
#include <memory>
#include <vector>

#include "cc/collectives/compressed_allreduce.h"
#include "cc/ops/dtypes.h"
#include "cc/ops/replica_counts.h"
#include "cc/ops/replica_shapes.h"
#include "cc/ops/request_op.h"
#include "cc/ops/shapes.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"

namespace adasum {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// The value of a variable in the host's memory, to be changed in place: half of the time of a call
// was spent on copies of residuals. It is copied only where somebody else still reads it.
absl::Status ValueToChange(OpKernelContext* context, int input, Tensor* value) {
  tensorflow::core::RefCountPtr<tensorflow::Var> variable;
  const auto& handle = tensorflow::HandleFromInput(context, input);
  TF_RETURN_IF_ERROR(tensorflow::LookupResource(context, handle, &variable));
  const tensorflow::mutex_lock lock(*variable->mu());
  Tensor* const held = variable->tensor();
  if (!held->RefCountIsOne()) {
    Tensor copy;
    TF_RETURN_IF_ERROR(context->allocate_temp(held->dtype(), held->shape(), &copy));
    std::memcpy(copy.data(), held->data(), held->TotalBytes());
    *held = copy;
  }
  *value = *held;
  return absl::OkStatus();
}

// Inputs: the communicator, each replica's tensors, the variables of their residuals in the same
// order, and those of this rank's parts of the results. Outputs: the results.
class CompressedAllreduceOp : public RequestOp {
 public:
  explicit CompressedAllreduceOp(OpKernelConstruction* context) : RequestOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("num_inputs", &num_inputs_));
    OP_REQUIRES_OK(context, context->GetAttr("num_tensors", &num_tensors_));
    OP_REQUIRES_OK(context, context->GetAttr("num_residuals", &num_residuals_));
    OP_REQUIRES_OK(context, context->GetAttr("num_part_residuals", &num_part_residuals_));
    OP_REQUIRES_OK(context, context->GetAttr("reduction", &reduction_));
    OP_REQUIRES_OK(context, context->GetAttr("codec", &codec_));
    OP_REQUIRES_OK(context, replica_counts_.Read(context));
    const bool has_none = num_residuals_ == 0 && num_part_residuals_ == 0;
    const bool has_all = num_residuals_ == num_inputs_ && num_part_residuals_ == num_tensors_;
    OP_REQUIRES(
        context, num_inputs_ % num_tensors_ == 0 && (has_none || has_all),
        absl::InvalidArgumentError(absl::StrCat(
            "Expected the same number of tensors, ", num_tensors_,
            ", from every replica, and residuals of all of them or none. Received: ", num_inputs_,
            " tensors, ", num_residuals_, " residuals, and ", num_part_residuals_, " of parts.")));
  }

 private:
  absl::StatusOr<Request> MakeRequest(OpKernelContext* context, Group& group) const override {
    const Communicator& communicator = group.communicator();
    CompressedTensors tensors{name(), reduction_, codec_, ToDType(context->input_dtype(1))};
    TF_RETURN_IF_ERROR(
        CheckReplicaShapes(context, communicator, num_inputs_, num_tensors_, name()));
    TF_RETURN_IF_ERROR(replica_counts_.Check(communicator, num_inputs_ / num_tensors_));
    tensors.replica_counts = replica_counts_.counts();
    for (int i = 0; i < num_inputs_; ++i) {
      if (i % num_tensors_ == 0) tensors.inputs.emplace_back();
      tensors.inputs.back().push_back(context->input(1 + i).data());
    }
    for (int i = 0; i < num_tensors_; ++i) {
      const auto& shape = context->input(1 + i).shape();
      tensors.shapes.push_back(ToShape(shape));
      Tensor* output = nullptr;
      // In place where nobody else holds the tensor.
      TF_RETURN_IF_ERROR(context->forward_input_or_allocate_output({1 + i}, i, shape, &output));
      tensors.outputs.push_back(output->data());
    }
    const auto kept = std::make_shared<std::vector<Tensor>>();
    for (int i = 0; i < num_residuals_ + num_part_residuals_; ++i) {
      Tensor residual;
      TF_RETURN_IF_ERROR(ValueToChange(context, 1 + num_inputs_ + i, &residual));
      TF_RETURN_IF_ERROR(CheckResidual(context, i, residual, communicator.size()));
      kept->push_back(residual);
      if (i >= num_residuals_) {
        tensors.part_residuals.push_back(residual.data());
        continue;
      }
      if (i % num_tensors_ == 0) tensors.residuals.emplace_back();
      tensors.residuals.back().push_back(residual.data());
    }
    tensors.kept = kept;
    return CompressedAllreduceRequest(std::move(tensors));
  }

  absl::Status CheckResidual(OpKernelContext* context, int i, const Tensor& residual,
                             int num_ranks) const {
    const int tensor = i % num_tensors_;
    const int64_t all = context->input(1 + tensor).NumElements();
    const int64_t wanted = i < num_residuals_ ? all : MostPartElements(all, num_ranks);
    if (residual.NumElements() == wanted && residual.dtype() == context->input_dtype(1)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("Expected a residual of ", wanted, " values for tensor ", tensor, " of '",
                     name(), "' on ", num_ranks, " ranks. Received: ", residual.NumElements(),
                     " of ", tensorflow::DataTypeString(residual.dtype()),
                     ". Make the state anew where tensors or ranks are others."));
  }

  int num_inputs_;
  int num_tensors_;
  int num_residuals_;
  int num_part_residuals_;
  std::string reduction_;
  std::string codec_;
  ReplicaCounts replica_counts_;
};

REGISTER_KERNEL_BUILDER(Name("AdasumCompressedAllreduce").Device(tensorflow::DEVICE_CPU),
                        CompressedAllreduceOp);

}  // namespace
}  // namespace adasum
