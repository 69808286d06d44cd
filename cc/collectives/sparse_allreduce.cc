#include "cc/collectives/sparse_allreduce.h"

#include <algorithm>
#include <utility>

#include "cc/collectives/allreduce.h"
#include "cc/collectives/reduction_spec.h"
#include "cc/collectives/sparse_execution.h"
#include "cc/core/error.h"

namespace adasum {
namespace {

// Rows that a leaf lacks are zero: these reductions leave them out and get the same.
const char* const kReductions[] = {"adasum", "mean", "sum"};

const Reduction& CheckedReduction(const SparseAllreduceTensors& tensors) {
  const ReductionSpec spec = ReductionSpec::Parse(tensors.reduction, "", tensors.dtype);
  if (std::find(std::begin(kReductions), std::end(kReductions), tensors.reduction) !=
      std::end(kReductions)) {
    return *spec.across;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "Expected the reduction adasum, mean or sum for rows: with others, rows that a leaf "
              "lacks would count as zeros. Received: " +
                  tensors.reduction + ". Pass dense tensors.");
}

std::string Signature(const SparseAllreduceTensors& tensors) {
  const size_t num_replicas = tensors.tensors.empty() ? 0 : tensors.tensors[0].replicas.size();
  std::string text = "allreduce(" + tensors.reduction + ") of " +
                     std::to_string(tensors.tensors.size()) + " sparse " +
                     DTypeName(tensors.dtype) + " tensors";
  const char* separator = ": ";
  for (const SparseTensor& tensor : tensors.tensors) {
    text += separator + tensor.text;
    separator = ", ";
  }
  return text + ReplicasText(num_replicas, tensors.replica_counts);
}

}  // namespace

Request SparseAllreduceRequest(SparseAllreduceTensors tensors) {
  const Reduction& reduction = CheckedReduction(tensors);
  RequestKey key(tensors.name, Signature(tensors));
  auto run = [tensors = std::move(tensors), &reduction](RequestContext& context) {
    ExecuteSparseAllreduce(tensors, reduction, context);
  };
  return {std::move(key), std::move(run), nullptr};
}

}  // namespace adasum
