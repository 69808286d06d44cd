// The allreduce of changing groups of ranks in which nobody waits for a rank that is late: a
// partial collective (Di Girolamo et al.; Li et al., arXiv:2005.00124).
#ifndef ADASUM_COLLECTIVES_PARTIAL_ALLREDUCE_H_
#define ADASUM_COLLECTIVES_PARTIAL_ALLREDUCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cc/collectives/allreduce.h"
#include "cc/core/dtype.h"
#include "cc/engine/request.h"

namespace adasum {

struct PartialTensors {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<Shape> shapes;
  std::vector<std::string> reductions;  // of each tensor: "adasum" or "mean"
  int group_size = 2;                   // a power of two
  // Where the groups' rotation stands, equal on all ranks, if each round waits for the calls of
  // all. Without it rounds wait for no call, and are counted.
  std::optional<int64_t> turn;
  std::vector<const void*> inputs;  // of this rank; they stay as they are while `kept` is held
  std::shared_ptr<const void> kept;
  std::vector<void*> outputs;     // the caller's, until `done`; none may be an input
  int64_t* num_behind = nullptr;  // how many rounds were over when the call came; written
};

// One call: its round, where it is in time, or what a late one gets. For the first call ranks wait
// for each other. A communicator that has such calls carries nothing but them, for tensors that are
// alike on all ranks and in all calls, and resets. Without `done`. Throws InvalidArgument.
Request PartialAllreduceRequest(PartialTensors tensors);

// What this rank has contributed counts as zero from now on. For this rank alone; without `done`.
// Where it `restarts`, which all ranks do alike before any makes its next call, ranks wait for each
// other in that call, and it counts as the same one on all.
Request PartialResetRequest(bool restarts);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_PARTIAL_ALLREDUCE_H_
