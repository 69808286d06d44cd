// How many replicas each rank has, as the ops of several replicas are told.
#ifndef ADASUM_OPS_REPLICA_COUNTS_H_
#define ADASUM_OPS_REPLICA_COUNTS_H_

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/engine/communicator.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace adasum {

// The attribute `replica_counts`: of every rank, or empty where all have as many.
class ReplicaCounts {
 public:
  absl::Status Read(tensorflow::OpKernelConstruction* context) {
    return context->GetAttr("replica_counts", &counts_);
  }

  // Of an op whose inputs are those of `num_replicas`.
  absl::Status Check(const Communicator& communicator, int num_replicas) const {
    const bool are_all = static_cast<int>(counts_.size()) == communicator.size();
    if (counts_.empty() || (are_all && counts_[communicator.rank()] == num_replicas &&
                            *std::min_element(counts_.begin(), counts_.end()) > 0)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", communicator.world_rank(),
        ": Expected the number of replicas, 1 at least, of each of ", communicator.size(),
        " ranks, with ", num_replicas, " for rank ", communicator.world_rank(), ". Received: [",
        absl::StrJoin(counts_, ", "), "]. Pass the numbers of all ranks on each."));
  }

  // Empty where all have as many, whether or not they were passed: then it is the same request.
  std::vector<int> counts() const {
    const auto is_other = [this](int count) { return count != counts_.front(); };
    const bool are_unlike = std::any_of(counts_.begin(), counts_.end(), is_other);
    return are_unlike ? counts_ : std::vector<int>();
  }

 private:
  std::vector<int> counts_;
};

}  // namespace adasum

#endif  // ADASUM_OPS_REPLICA_COUNTS_H_
