#include "cc/collectives/reduction_spec.h"

#include "cc/core/error.h"

namespace adasum {
namespace {

const Reduction& CheckedReduction(const std::string& name, DType dtype) {
  const Reduction& reduction = FindReduction(name);
  if (!reduction.Supports(dtype)) {
    throw Error(ErrorCode::kInvalidArgument, "Expected a floating dtype for the reduction " + name +
                                                 ". Received: " + DTypeName(dtype) +
                                                 ". Use sum or mean for other dtypes.");
  }
  return reduction;
}

}  // namespace

ReductionSpec ReductionSpec::Parse(const std::string& reduction, const std::string& local_reduction,
                                   DType dtype) {
  const bool is_one_tree = local_reduction.empty() || local_reduction == "adasum";
  return {&CheckedReduction(reduction, dtype),
          is_one_tree ? nullptr : &CheckedReduction(local_reduction, dtype)};
}

std::string ReductionSpec::Text() const {
  const std::string text = across->name();
  return inside == nullptr ? text : text + " of each host's " + inside->name();
}

}  // namespace adasum
