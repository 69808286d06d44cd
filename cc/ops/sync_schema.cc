// The ops of exchanges in which not all ranks take part alike, as TensorFlow's graphs see them.

#include "cc/ops/group_shapes.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace adasum {
namespace {

using tensorflow::shape_inference::InferenceContext;

absl::Status UploadsShapes(InferenceContext* context) {
  const int num_tensors = context->num_outputs() - 1;
  for (int i = 0; i < num_tensors; ++i) context->set_output(i, context->input(2 + i));
  context->set_output(num_tensors, context->Scalar());
  return absl::OkStatus();
}

absl::Status PartialAllreduceShapes(InferenceContext* context) {
  const int num_tensors = context->num_outputs() - 1;
  for (int i = 0; i < num_tensors; ++i) context->set_output(i, context->input(1 + i));
  context->set_output(num_tensors, context->Scalar());
  return absl::OkStatus();
}

absl::Status DeadlineAllreduceShapes(InferenceContext* context) {
  const int num_tensors = (context->num_outputs() - 1) / 2;
  for (int i = 0; i < num_tensors; ++i) {
    context->set_output(i, context->input(1 + i));
    context->set_output(num_tensors + i, context->input(1 + i));
  }
  context->set_output(2 * num_tensors, context->Scalar());
  return absl::OkStatus();
}

REGISTER_OP("AdasumDeadlineAllreduce")
    .Input("communicator: resource")
    .Input("inputs: num_tensors * T")
    .Output("outputs: num_tensors * T")
    .Output("left_out: num_tensors * T")
    .Output("share: double")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("num_tensors: int >= 1")
    .Attr("reductions: list(string) >= 1")
    .Attr("milliseconds: float")
    .Attr("max_left_out: float")
    .Attr("tensor_name: string")
    .Attr("caller_waits: bool = false")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GroupShapes<DeadlineAllreduceShapes>)
    .Doc(
        "Reduces a list of tensors, each by its own reduction, without the chunks that are not "
        "there in time, on all ranks alike. left_out: what of this rank's tensors is not in the "
        "outputs, else zero. share: of all ranks' elements, how many were left out.");

REGISTER_OP("AdasumPartialAllreduce")
    .Input("communicator: resource")
    .Input("inputs: num_tensors * T")
    .Input("turn: int64")
    .Output("outputs: num_tensors * T")
    .Output("num_behind: int64")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("num_tensors: int >= 1")
    .Attr("reductions: list(string) >= 1")
    .Attr("group_size: int >= 2")
    .Attr("waits: bool = false")
    .Attr("tensor_name: string")
    .Attr("caller_waits: bool = false")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GroupShapes<PartialAllreduceShapes>)
    .Doc(
        "Reduces a list of tensors, each by its own reduction, over a group of ranks that changes "
        "from call to call. Unless it waits, who is late is counted with its last "
        "tensors. turn: where it waits, how far the groups have rotated, equal on all ranks; "
        "others "
        "count their rounds. num_behind: how many rounds of groups were over when the call came.");

REGISTER_OP("AdasumPartialReset")
    .Input("communicator: resource")
    .Attr("restarts: bool = false")
    .Attr("tensor_name: string")
    .Attr("caller_waits: bool = false")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GroupShapes<tensorflow::shape_inference::NoOutputs>)
    .Doc(
        "What this rank has contributed to rounds of groups counts as zero from now on. restarts: "
        "and ranks wait for each other in the next call, as in the first.");

REGISTER_OP("AdasumUploads")
    .Input("communicator: resource")
    .Input("uploads: bool")
    .Input("inputs: num_tensors * T")
    .Output("outputs: num_tensors * T")
    .Output("num_uploads: int64")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("num_tensors: int >= 1")
    .Attr("tensor_name: string")
    .Attr("caller_waits: bool = false")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GroupShapes<UploadsShapes>)
    .Doc(
        "The sum of tensors over the ranks that upload theirs, at all ranks; zero where none does. "
        "num_uploads: how many did.");

}  // namespace
}  // namespace adasum
