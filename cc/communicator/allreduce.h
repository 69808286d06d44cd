// The collectives, as requests to a communicator.
#ifndef ADASUM_COMMUNICATOR_ALLREDUCE_H_
#define ADASUM_COMMUNICATOR_ALLREDUCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cc/arithmetic/parallel_arithmetic.h"
#include "cc/communicator/communicator.h"
#include "cc/communicator/device_tensors.h"
#include "cc/core/dtype.h"

namespace adasum {

using Shape = std::vector<int64_t>;

// Called exactly once; null for success.
using Done = std::function<void(const Error*)>;

struct AllreduceTensors {
  std::string name;       // equal on all ranks for what belongs together
  std::string reduction;  // see ReductionNames()
  DType dtype;
  std::vector<Shape> shapes;
  // inputs[replica][tensor] and outputs[tensor]; they belong to the caller, who keeps them until
  // `done`. Null where a tensor is empty.
  std::vector<std::vector<const void*>> inputs;
  std::vector<void*> outputs;
  // The reduction inside every host, `reduction` being that over the hosts' results (hierarchy.h);
  // empty for one tree over all leaves.
  std::string local_reduction = {};
  // Where other threads for the arithmetic come from; null for none.
  LendThread lend = nullptr;
  // Null where they are in host memory; alike on all ranks.
  std::shared_ptr<DeviceTensors> device = nullptr;
};

// Reduces over all replicas of all ranks. Never blocks; all errors come through `done`.
void Allreduce(Communicator& communicator, AllreduceTensors tensors, Done done);

// As Allreduce, on the calling thread; returns when the outputs are there. Throws Error.
void AllreduceAndWait(Communicator& communicator, AllreduceTensors tensors);

struct BroadcastTensors {
  std::string name;
  std::string signature;  // dtypes and shapes, compared across ranks
  int root;
  // Read on the root, written elsewhere.
  std::vector<void*> buffers;
  std::vector<int64_t> num_bytes;
};

// Copies the root's bytes to all ranks. Never blocks; all errors come through `done`.
void Broadcast(Communicator& communicator, BroadcastTensors tensors, Done done);

// How simulated leaves are reduced.
struct SimulatedReduction {
  std::string reduction;
  std::string local_reduction;       // as in AllreduceTensors
  std::vector<int> leaves_per_host;  // neighbours together
  InstructionSet instruction_set;
};

// The reduction of inputs[leaf][tensor] to outputs[leaf][tensor] with one thread per leaf of this
// process and no other rank. Throws Error.
void Simulate(const SimulatedReduction& simulated, DType dtype,
              const std::vector<int64_t>& num_elements,
              const std::vector<std::vector<const void*>>& inputs,
              const std::vector<std::vector<void*>>& outputs);

}  // namespace adasum

#endif  // ADASUM_COMMUNICATOR_ALLREDUCE_H_
