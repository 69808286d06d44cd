// The allgather of a list of tensors, as a request to a communicator: every rank's rows on every
// rank, in the order of the ranks.
#ifndef ADASUM_COLLECTIVES_ALLGATHER_H_
#define ADASUM_COLLECTIVES_ALLGATHER_H_

#include <functional>
#include <string>
#include <vector>

#include "cc/collectives/rows.h"
#include "cc/engine/request.h"

namespace adasum {

// What is known of one tensor once all ranks have said how many rows they have.
struct GatheredRows {
  int64_t num_rows;  // of all ranks
  int64_t begin;     // where this rank's begin among them
};

struct AllgatherTensors {
  std::string name;
  // They belong to the caller, who keeps them until the request is done.
  std::vector<RowTensor> inputs;
  // Called once, by the thread that carries out the request: returns where the rows of each tensor
  // go. May throw Error where there is no memory for them.
  std::function<std::vector<void*>(const std::vector<GatheredRows>&)> allocate;
};

// `done` is the caller's to set.
Request AllgatherRequest(AllgatherTensors tensors);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_ALLGATHER_H_
