#include "cc/collectives/sparse_allreduce.h"
#include "cc/ops/dtypes.h"
#include "cc/ops/replica_counts.h"
#include "cc/ops/request_op.h"
#include "cc/ops/row_tensors.h"

namespace adasum {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Inputs: the communicator, how many rows each tensor has, then indices and values of each
// replica's tensors. Outputs: indices, then values, of each tensor.
class SparseAllreduceOp : public RequestOp {
 public:
  explicit SparseAllreduceOp(OpKernelConstruction* context) : RequestOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("num_inputs", &num_inputs_));
    OP_REQUIRES_OK(context, context->GetAttr("num_tensors", &num_tensors_));
    OP_REQUIRES_OK(context, context->GetAttr("reduction", &reduction_));
    OP_REQUIRES_OK(context, replica_counts_.Read(context));
    OP_REQUIRES(context, num_inputs_ % num_tensors_ == 0,
                absl::InvalidArgumentError(absl::StrCat(
                    "Expected the same number of tensors, ", num_tensors_,
                    ", from every replica. Received: ", num_inputs_, " tensors in all.")));
  }

 private:
  static constexpr int kFirst = 2;

  const Tensor& Values(OpKernelContext* context, int i) const {
    return context->input(kFirst + num_inputs_ + i);
  }

  absl::StatusOr<Request> MakeRequest(OpKernelContext* context, Group& group) const override {
    TF_RETURN_IF_ERROR(replica_counts_.Check(group.communicator(), num_inputs_ / num_tensors_));
    const Tensor& dense_rows = context->input(1);
    if (dense_rows.NumElements() != num_tensors_) {
      return absl::InvalidArgumentError(
          absl::StrCat("Expected a number of rows for each of ", num_tensors_,
                       " tensors. Received: ", dense_rows.NumElements(), " numbers."));
    }
    SparseAllreduceTensors request{
        name(), reduction_, ToDType(context->input_dtype(kFirst + num_inputs_)), {}, {}};
    for (int i = 0; i < num_tensors_; ++i) {
      request.tensors.push_back(TensorOf(context, i, dense_rows.flat<int64_t>()(i)));
    }
    request.replica_counts = replica_counts_.counts();
    request.allocate = [this, context](const std::vector<int64_t>& num_rows) {
      return Allocate(context, num_rows);
    };
    return SparseAllreduceRequest(std::move(request));
  }

  SparseTensor TensorOf(OpKernelContext* context, int i, int64_t dense_rows) const {
    const RowTensor first = ToRows(Values(context, i));
    SparseTensor tensor{first.text + " out of " + std::to_string(dense_rows),
                        dense_rows,
                        RowElements(Values(context, i).shape()),
                        {}};
    for (int k = i; k < num_inputs_; k += num_tensors_) {
      const Tensor& indices = context->input(kFirst + k);
      const RowTensor rows = ToRows(Values(context, k));
      tensor.replicas.push_back({indices.flat<int64_t>().data(), rows.bytes, indices.NumElements(),
                                 Fault(indices, rows, first, dense_rows)});
    }
    return tensor;
  }

  // Refused by all ranks together, once they meet.
  static std::string Fault(const Tensor& indices, const RowTensor& rows, const RowTensor& first,
                           int64_t dense_rows) {
    if (dense_rows < 0) return std::to_string(dense_rows) + " rows in all";
    if (rows.num_rows == kScalar) return "a scalar as rows";
    if (rows.text != first.text) return rows.text + " beside " + first.text;
    if (indices.dims() == 1 && indices.NumElements() == rows.num_rows) return "";
    return "indices of shape " + indices.shape().DebugString() + " for " +
           std::to_string(rows.num_rows) + " rows";
  }

  std::vector<ReducedRows> Allocate(OpKernelContext* context,
                                    const std::vector<int64_t>& num_rows) const {
    std::vector<ReducedRows> results;
    for (int i = 0; i < num_tensors_; ++i) {
      void* const indices = AllocateRows(context, i, context->input(kFirst + i), num_rows[i]);
      void* const values = AllocateRows(context, num_tensors_ + i, Values(context, i), num_rows[i]);
      results.push_back({static_cast<int64_t*>(indices), values});
    }
    return results;
  }

  int num_inputs_;
  int num_tensors_;
  std::string reduction_;
  ReplicaCounts replica_counts_;
};

REGISTER_KERNEL_BUILDER(Name("AdasumSparseAllreduce").Device(tensorflow::DEVICE_CPU),
                        SparseAllreduceOp);

}  // namespace
}  // namespace adasum
