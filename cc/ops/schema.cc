// The ops as TensorFlow's graphs see them: names, attributes, shapes.
//
// Those of a communicator are distributed communication: in a graph TensorFlow makes Internal of
// other ops' Unavailable, which is how users hear that a rank has ended.

#include "cc/ops/group_shapes.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace adasum {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// Kernels check it too, but shapes come first.
absl::Status CheckReplicas(int num_inputs, int num_tensors) {
  if (num_inputs % num_tensors == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Expected as many tensors of each replica: a multiple of num_tensors = ", num_tensors,
      " inputs. Received: ", num_inputs, "."));
}

// inputs[1 + replica * num_tensors + tensor] -> outputs[tensor], which has the shape of all
// replicas' tensors.
absl::Status AllreduceShapes(InferenceContext* context) {
  int num_inputs, num_tensors;
  TF_RETURN_IF_ERROR(context->GetAttr("num_inputs", &num_inputs));
  TF_RETURN_IF_ERROR(context->GetAttr("num_tensors", &num_tensors));
  TF_RETURN_IF_ERROR(CheckReplicas(num_inputs, num_tensors));
  for (int tensor = 0; tensor < num_tensors; ++tensor) {
    auto shape = context->input(1 + tensor);
    for (int i = 1 + tensor + num_tensors; i <= num_inputs; i += num_tensors) {
      TF_RETURN_IF_ERROR(context->Merge(shape, context->input(i), &shape));
    }
    context->set_output(tensor, shape);
  }
  return absl::OkStatus();
}

// The same, and behind them two numbers for each tensor.
absl::Status MeasuredAllreduceShapes(InferenceContext* context) {
  TF_RETURN_IF_ERROR(AllreduceShapes(context));
  const int num_tensors = context->num_outputs() - 1;
  context->set_output(num_tensors, context->Matrix(num_tensors, 2));
  return absl::OkStatus();
}

absl::Status BroadcastShapes(InferenceContext* context) {
  for (int i = 0; i < context->num_outputs(); ++i) context->set_output(i, context->input(1 + i));
  return absl::OkStatus();
}

// Rows as the input's, as many as the ranks find when they meet; scalars are refused then, too, so
// that no rank is refused alone.
ShapeHandle ShapeOfRows(InferenceContext* context, ShapeHandle input) {
  ShapeHandle rows = context->UnknownShape();
  if (context->RankKnown(input) && context->Rank(input) > 0) {
    TF_CHECK_OK(context->ReplaceDim(input, 0, context->UnknownDim(), &rows));
  }
  return rows;
}

// Rows of each input from `first_input` on, and a vector of counts behind them.
absl::Status RowsShapes(InferenceContext* context, int first_input) {
  const int num_tensors = context->num_inputs() - first_input;
  for (int i = 0; i < num_tensors; ++i) {
    context->set_output(i, ShapeOfRows(context, context->input(first_input + i)));
  }
  context->set_output(num_tensors, context->Vector(InferenceContext::kUnknownDim));
  return absl::OkStatus();
}

// Indices and values of each tensor's rows; the values of the first replica say what a row is.
absl::Status SparseAllreduceShapes(InferenceContext* context) {
  const int num_tensors = context->num_outputs() / 2;
  const int num_inputs = (context->num_inputs() - 2) / 2;
  TF_RETURN_IF_ERROR(CheckReplicas(num_inputs, num_tensors));
  for (int i = 0; i < num_tensors; ++i) {
    context->set_output(i, context->Vector(InferenceContext::kUnknownDim));
    context->set_output(num_tensors + i, ShapeOfRows(context, context->input(2 + num_inputs + i)));
  }
  return absl::OkStatus();
}

absl::Status AllgatherShapes(InferenceContext* context) { return RowsShapes(context, 1); }
absl::Status AlltoallShapes(InferenceContext* context) { return RowsShapes(context, 2); }

absl::Status ReduceScatterShapes(InferenceContext* context) {
  for (int i = 0; i < context->num_outputs(); ++i) {
    context->set_output(i, ShapeOfRows(context, context->input(1 + i)));
  }
  return absl::OkStatus();
}

// What travels as bytes.
constexpr char kListOfFixedSize[] =
    "T: list({half, bfloat16, float, double, int8, uint8, int16, uint16, int32, uint32, int64, "
    "uint64, bool, complex64, complex128}) >= 1";

REGISTER_OP("AdasumCommunicator")
    .Attr("id: int")
    .Output("communicator: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc("The handle of an open communicator; ops that take it run in the order of the program.");

REGISTER_OP("AdasumAllreduce")
    .Input("communicator: resource")
    .Input("inputs: num_inputs * T")
    .Output("outputs: num_tensors * T")
    .Attr("T: {half, bfloat16, float, double, int32, int64, bool}")
    .Attr("num_inputs: int >= 1")
    .Attr("num_tensors: int >= 1")
    .Attr("reduction: string = 'adasum'")
    .Attr("local_reduction: string = ''")
    .Attr("tensor_name: string")
    .Attr("replica_counts: list(int) = []")
    .Attr("caller_waits: bool = false")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GroupShapes<AllreduceShapes>)
    .Doc(
        "Reduces a list of tensors over all replicas of all ranks, each tensor by itself; with a "
        "local_reduction first by that inside every host, then by the reduction across hosts. "
        "replica_counts: of each rank; empty where all have as many. "
        "caller_waits: the thread that calls the kernel has nothing else to do, and may carry it "
        "out.");

REGISTER_OP("AdasumMeasuredAllreduce")
    .Input("communicator: resource")
    .Input("inputs: num_inputs * T")
    .Output("outputs: num_tensors * T")
    .Output("norms: double")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("num_inputs: int >= 1")
    .Attr("num_tensors: int >= 1")
    .Attr("reduction: string = 'adasum'")
    .Attr("local_reduction: string = ''")
    .Attr("tensor_name: string")
    .Attr("replica_counts: list(int) = []")
    .Attr("caller_waits: bool = false")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GroupShapes<MeasuredAllreduceShapes>)
    .Doc(
        "As AdasumAllreduce. norms: for each tensor the squared norm of the result before it is "
        "rounded, and the sum of the squared norms of all leaves; of the hosts' results with a "
        "local_reduction. NaN where no Adasum of several leaves is made.");

REGISTER_OP("AdasumCompressedAllreduce")
    .Input("communicator: resource")
    .Input("inputs: num_inputs * T")
    .Input("residuals: num_residuals * resource")
    .Input("part_residuals: num_part_residuals * resource")
    .Output("outputs: num_tensors * T")
    .Attr("T: {float, double}")
    .Attr("num_inputs: int >= 1")
    .Attr("num_tensors: int >= 1")
    .Attr("num_residuals: int >= 0")
    .Attr("num_part_residuals: int >= 0")
    .Attr("reduction: string = 'adasum'")
    .Attr("codec: string")
    .Attr("tensor_name: string")
    .Attr("replica_counts: list(int) = []")
    .Attr("caller_waits: bool = false")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GroupShapes<AllreduceShapes>)
    .Doc(
        "Reduces a list of tensors over all replicas of all ranks, each tensor by itself, that "
        "travel encoded. residuals: variables in the host's memory, of what encoding lost of each "
        "before, which is added to it and becomes what is lost now; part_residuals: of this rank's "
        "part of each result; neither where nothing is kept.");

REGISTER_OP("AdasumSparseAllreduce")
    .Input("communicator: resource")
    .Input("dense_rows: int64")
    .Input("indices: num_inputs * int64")
    .Input("values: num_inputs * T")
    .Output("reduced_indices: num_tensors * int64")
    .Output("reduced_values: num_tensors * T")
    .Attr("T: {half, bfloat16, float, double, int32, int64, bool}")
    .Attr("num_inputs: int >= 1")
    .Attr("num_tensors: int >= 1")
    .Attr("reduction: string = 'adasum'")
    .Attr("tensor_name: string")
    .Attr("replica_counts: list(int) = []")
    .Attr("caller_waits: bool = false")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GroupShapes<SparseAllreduceShapes>)
    .Doc(
        "Reduces tensors of which every replica has some rows, over all replicas of all ranks, "
        "each tensor by itself. dense_rows: how many rows each tensor has. Inputs are those of the "
        "first replica, then those of the next.");

REGISTER_OP("AdasumBroadcast")
    .Input("communicator: resource")
    .Input("inputs: T")
    .Output("outputs: T")
    .Attr(kListOfFixedSize)
    .Attr("root: int = 0")
    .Attr("is_root: bool")
    .Attr("tensor_name: string")
    .Attr("caller_waits: bool = false")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GroupShapes<BroadcastShapes>)
    .Doc(
        "Replaces a list of tensors by the root's. is_root: whether this rank is the root, for the "
        "gradient.");

REGISTER_OP("AdasumAllgather")
    .Input("communicator: resource")
    .Input("inputs: T")
    .Output("outputs: T")
    .Output("begins: int64")
    .Attr(kListOfFixedSize)
    .Attr("tensor_name: string")
    .Attr("caller_waits: bool = false")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GroupShapes<AllgatherShapes>)
    .Doc(
        "Joins each tensor's rows of all ranks, in the order of the ranks. begins: for each tensor "
        "the row at which this rank's are found.");

REGISTER_OP("AdasumAlltoall")
    .Input("communicator: resource")
    .Input("splits: int64")
    .Input("inputs: T")
    .Output("outputs: T")
    .Output("received: int64")
    .Attr(kListOfFixedSize)
    .Attr("tensor_name: string")
    .Attr("caller_waits: bool = false")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GroupShapes<AlltoallShapes>)
    .Doc(
        "Deals the rows of each tensor to the ranks: splits holds how many each gets, and is empty "
        "for as many for each. received: how many rows came from each rank.");

REGISTER_OP("AdasumReduceScatter")
    .Input("communicator: resource")
    .Input("inputs: num_tensors * T")
    .Output("outputs: num_tensors * T")
    .Attr("T: {half, bfloat16, float, double, int32, int64, bool}")
    .Attr("num_tensors: int >= 1")
    .Attr("reduction: string")
    .Attr("num_ranks: int >= 1")
    .Attr("tensor_name: string")
    .Attr("caller_waits: bool = false")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GroupShapes<ReduceScatterShapes>)
    .Doc(
        "Reduces each tensor over all ranks and leaves each rank its share of the rows. num_ranks: "
        "of the communicator, for the gradient.");

REGISTER_OP("AdasumBarrier")
    .Input("communicator: resource")
    .Attr("tensor_name: string")
    .Attr("caller_waits: bool = false")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GroupShapes<tensorflow::shape_inference::NoOutputs>)
    .Doc("Done when all ranks have come to it.");

}  // namespace
}  // namespace adasum
