// The allreduce that leaves out what is late: chunks travel each by itself, and what is not there
// in time and within a bound is left out on all ranks alike (Wang et al., DLCP, "Domain-specific
// Communication Optimization for Distributed DNN Training", arXiv:2008.08445).
#ifndef ADASUM_COLLECTIVES_DEADLINE_ALLREDUCE_H_
#define ADASUM_COLLECTIVES_DEADLINE_ALLREDUCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/collectives/allreduce.h"
#include "cc/core/dtype.h"
#include "cc/engine/request.h"

namespace adasum {

struct DeadlineTensors {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<Shape> shapes;
  std::vector<std::string> reductions;  // of each tensor: "adasum", "mean" or "sum"
  double milliseconds = 50;             // from when all ranks have come; half of them for each way
  double max_left_out = 0.01;           // the largest share of all ranks' elements
  std::vector<const void*> inputs;
  std::vector<void*> outputs;   // none may be an input
  std::vector<void*> left_out;  // of this rank's inputs, else zero; may be these
  double* share = nullptr;      // of all ranks' elements, that was left out; written
};

// Of a communicator that carries nothing else. Its transport starts messages, and goes on with them
// while it waits for others: no shared memory beside MPI. Without `done`. Throws InvalidArgument.
Request DeadlineAllreduceRequest(DeadlineTensors tensors);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_DEADLINE_ALLREDUCE_H_
