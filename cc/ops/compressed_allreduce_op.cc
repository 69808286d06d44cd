#include <cstring>

#include "cc/collectives/compressed_allreduce.h"
#include "cc/ops/dtypes.h"
#include "cc/ops/request_op.h"

namespace adasum {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

Shape ToShape(const tensorflow::TensorShape& shape) {
  Shape sizes;
  for (int i = 0; i < shape.dims(); ++i) sizes.push_back(shape.dim_size(i));
  return sizes;
}

// Inputs: the communicator, each replica's tensors, their residuals in the same order, and those of
// this rank's parts of the results. Outputs: the results, and all residuals as they are then.
class CompressedAllreduceOp : public RequestOp {
 public:
  explicit CompressedAllreduceOp(OpKernelConstruction* context) : RequestOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("num_inputs", &num_inputs_));
    OP_REQUIRES_OK(context, context->GetAttr("num_tensors", &num_tensors_));
    OP_REQUIRES_OK(context, context->GetAttr("num_residuals", &num_residuals_));
    OP_REQUIRES_OK(context, context->GetAttr("num_part_residuals", &num_part_residuals_));
    OP_REQUIRES_OK(context, context->GetAttr("reduction", &reduction_));
    OP_REQUIRES_OK(context, context->GetAttr("codec", &codec_));
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
  absl::StatusOr<Request> MakeRequest(OpKernelContext* context,
                                      const Communicator& communicator) const override {
    CompressedTensors tensors{name(), reduction_, codec_, ToDType(context->input_dtype(1))};
    TF_RETURN_IF_ERROR(CheckShapes(context, communicator.size()));
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
    for (int i = 0; i < num_residuals_ + num_part_residuals_; ++i) {
      void* residual = nullptr;
      TF_RETURN_IF_ERROR(Residual(context, i, &residual));
      if (i >= num_residuals_) {
        tensors.part_residuals.push_back(residual);
        continue;
      }
      if (i % num_tensors_ == 0) tensors.residuals.emplace_back();
      tensors.residuals.back().push_back(residual);
    }
    try {
      return CompressedAllreduceRequest(std::move(tensors));
    } catch (const Error& error) {
      return ToStatus(&error);
    }
  }

  // The i-th residual, as an output to be changed.
  absl::Status Residual(OpKernelContext* context, int i, void** residual) const {
    const int from = 1 + num_inputs_ + i, to = num_tensors_ + i;
    const Tensor& before = context->input(from);
    Tensor* after = nullptr;
    TF_RETURN_IF_ERROR(
        context->forward_input_or_allocate_output({from}, to, before.shape(), &after));
    if (after->data() != before.data()) {
      std::memcpy(after->data(), before.data(), before.TotalBytes());
    }
    *residual = after->data();
    return absl::OkStatus();
  }

  absl::Status CheckShapes(OpKernelContext* context, int num_ranks) const {
    for (int i = 0; i < num_inputs_; ++i) {
      const auto& first = context->input(1 + i % num_tensors_).shape();
      const auto& shape = context->input(1 + i).shape();
      if (shape == first) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("Expected tensor ", i % num_tensors_, " of '", name(), "' to have shape ",
                       first.DebugString(), " on every replica. Received: ", shape.DebugString(),
                       " on replica ", i / num_tensors_, "."));
    }
    for (int i = 0; i < num_residuals_ + num_part_residuals_; ++i) {
      const int tensor = i % num_tensors_;
      const int64_t all = context->input(1 + tensor).NumElements();
      const int64_t wanted = i < num_residuals_ ? all : MostPartElements(all, num_ranks);
      const int64_t given = context->input(1 + num_inputs_ + i).NumElements();
      if (given == wanted) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("Expected a residual of ", wanted, " values for tensor ", tensor, " of '",
                       name(), "' on ", num_ranks, " ranks. Received: ", given,
                       ". Make the state anew where tensors or ranks are others."));
    }
    return absl::OkStatus();
  }

  int num_inputs_;
  int num_tensors_;
  int num_residuals_;
  int num_part_residuals_;
  std::string reduction_;
  std::string codec_;
};

REGISTER_KERNEL_BUILDER(Name("AdasumCompressedAllreduce").Device(tensorflow::DEVICE_CPU),
                        CompressedAllreduceOp);

}  // namespace
}  // namespace adasum
