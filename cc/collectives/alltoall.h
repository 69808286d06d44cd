// The alltoall of a list of tensors, as a request to a communicator: every rank deals its rows to
// the ranks.
#ifndef ADASUM_COLLECTIVES_ALLTOALL_H_
#define ADASUM_COLLECTIVES_ALLTOALL_H_

#include <functional>
#include <string>
#include <vector>

#include "cc/collectives/rows.h"
#include "cc/engine/request.h"

namespace adasum {

struct AlltoallTensors {
  std::string name;
  // With the same number of rows each. They belong to the caller, who keeps them until the request
  // is done.
  std::vector<RowTensor> inputs;
  // How many rows each rank gets, those of rank 0 first; empty for as many for each.
  std::vector<int64_t> splits;
  // Called once, by the thread that carries out the request, with the number of rows that come from
  // each rank: returns where those of each tensor go, in the order of the ranks. May throw Error
  // where there is no memory for them.
  std::function<std::vector<void*>(const std::vector<int64_t>&)> allocate;
};

// `done` is the caller's to set.
Request AlltoallRequest(AlltoallTensors tensors);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_ALLTOALL_H_
