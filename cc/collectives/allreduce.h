// The allreduce of a list of tensors, as a request to a communicator.
#ifndef ADASUM_COLLECTIVES_ALLREDUCE_H_
#define ADASUM_COLLECTIVES_ALLREDUCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cc/algorithms/squared_norms.h"
#include "cc/arithmetic/parallel_arithmetic.h"
#include "cc/collectives/device_tensors.h"
#include "cc/core/dtype.h"
#include "cc/engine/communicator.h"

namespace adasum {

using Shape = std::vector<int64_t>;
// Of each tensor.
std::vector<int64_t> NumElements(const std::vector<Shape>& shapes);
// "[2,3], [4]".
std::string TextOf(const std::vector<Shape>& shapes);
// " from 2 replicas", for each rank; " from [2,1] replicas" where they are unlike.
std::string ReplicasText(size_t num_replicas, const std::vector<int>& replica_counts);

struct AllreduceTensors {
  std::string name;       // equal on all ranks for what belongs together
  std::string reduction;  // see ReductionNames()
  DType dtype;
  std::vector<Shape> shapes;
  // inputs[replica][tensor] and outputs[tensor]; they belong to the caller, who keeps them until
  // `done`. Null where a tensor is empty.
  std::vector<std::vector<const void*>> inputs;
  std::vector<void*> outputs;
  // As ReductionSpec::Parse takes it.
  std::string local_reduction = {};
  // Where other threads for the arithmetic come from; null for none.
  LendThread lend = nullptr;
  // Null where they are in host memory; alike on all ranks.
  std::shared_ptr<DeviceTensors> device = nullptr;
  // One per tensor, as LeafTensors::norms, with hosts' results for leaves where there is a local
  // reduction; null where nobody asks, on all ranks alike. NaN where there is no Adasum of several
  // in host memory.
  SquaredNorms* norms = nullptr;
  // Of every rank; empty where all have as many as this one.
  std::vector<int> replica_counts = {};
};

// Reduces over all replicas of all ranks; without `done`. Throws Error.
Request AllreduceRequest(AllreduceTensors tensors);

// Carries it out on the calling thread; returns when the outputs are there. Throws Error.
void AllreduceAndWait(Communicator& communicator, const AllreduceTensors& tensors);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_ALLREDUCE_H_
