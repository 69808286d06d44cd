// The tensors of all replicas of a process, as the ops of several replicas are given them.
#ifndef ADASUM_OPS_REPLICA_SHAPES_H_
#define ADASUM_OPS_REPLICA_SHAPES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/engine/communicator.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace adasum {

// Of an op whose inputs, behind the handle, are `num_tensors` of each replica: shapes must agree
// here before any other process hears of them. `name` may be empty.
inline absl::Status CheckReplicaShapes(tensorflow::OpKernelContext* context,
                                       const Communicator& communicator, int num_inputs,
                                       int num_tensors, const std::string& name) {
  for (int i = num_tensors; i < num_inputs; ++i) {
    const auto& first = context->input(1 + i % num_tensors).shape();
    const auto& shape = context->input(1 + i).shape();
    if (shape == first) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", communicator.world_rank(), ": Expected tensor ", i % num_tensors,
        name.empty() ? "" : absl::StrCat(" of '", name, "'"), " to have shape ",
        first.DebugString(), " on every replica. Received: ", shape.DebugString(), " on replica ",
        i / num_tensors, ". Make all replicas pass tensors of equal shapes."));
  }
  return absl::OkStatus();
}

}  // namespace adasum

#endif  // ADASUM_OPS_REPLICA_SHAPES_H_
