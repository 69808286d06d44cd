// A reduction over leaves that are all in this process: no other rank, no communicator.
#ifndef ADASUM_COLLECTIVES_SIMULATE_H_
#define ADASUM_COLLECTIVES_SIMULATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/arithmetic/instruction_sets.h"
#include "cc/core/backoff.h"
#include "cc/core/dtype.h"

namespace adasum {

// How simulated leaves are reduced.
struct SimulatedReduction {
  std::string reduction;
  std::string local_reduction;       // as ReductionSpec::Parse takes it
  std::vector<int> leaves_per_host;  // neighbours together
  InstructionSet instruction_set = InstructionSet::kBaseline;
  Timeouts timeouts = {};
};

// The reduction of inputs[leaf][tensor] to outputs[leaf][tensor] with one thread per leaf of this
// process and no other rank. Throws Error.
void Simulate(const SimulatedReduction& simulated, DType dtype,
              const std::vector<int64_t>& num_elements,
              const std::vector<std::vector<const void*>>& inputs,
              const std::vector<std::vector<void*>>& outputs);

// What simulated leaves lost by encoding, which becomes what they lose now: [leaf][tensor], as
// CompressedTensors has them. Empty where nothing is kept.
struct SimulatedResiduals {
  std::vector<std::vector<void*>> of_leaves;
  std::vector<std::vector<void*>> of_parts;
};

// The same, as ranks with one leaf each, by tensors that travel encoded; there are no hosts.
void SimulateCompressed(const SimulatedReduction& simulated, const std::string& codec, DType dtype,
                        const std::vector<int64_t>& num_elements,
                        const std::vector<std::vector<const void*>>& inputs,
                        const std::vector<std::vector<void*>>& outputs,
                        const SimulatedResiduals& residuals);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_SIMULATE_H_
