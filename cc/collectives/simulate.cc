#include "cc/collectives/simulate.h"

#include <functional>
#include <numeric>
#include <string>

#include "cc/algorithms/reduce_leaves.h"
#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/collectives/compressed_execution.h"
#include "cc/collectives/hierarchy.h"
#include "cc/collectives/leaf_threads.h"
#include "cc/collectives/reduction_spec.h"

namespace adasum {
namespace {

std::string Joined(const std::vector<int>& counts) {
  std::string text;
  for (int count : counts) text += (text.empty() ? "" : ", ") + std::to_string(count);
  return text.empty() ? "none" : text;
}

// Hosts of so many leaves each, neighbours together.
HostRanks HostsOfNeighbours(const std::vector<int>& leaves_per_host, int num_leaves) {
  HostRanks hosts;
  int64_t next = 0;
  for (int64_t count : leaves_per_host) {
    if (count < 1 || count > num_leaves - next) next = num_leaves + 1;
    if (next > num_leaves) break;
    hosts.emplace_back(count);
    std::iota(hosts.back().begin(), hosts.back().end(), next);
    next += count;
  }
  if (next == num_leaves) return hosts;
  throw Error(ErrorCode::kInvalidArgument,
              "Expected counts of leaves per host, each at least 1, that add up to " +
                  std::to_string(num_leaves) + ". Received: " + Joined(leaves_per_host));
}

// Calls run(leaf, transport) for all, each on a thread of its own.
void ForEachLeaf(const SimulatedReduction& simulated, int num_leaves,
                 const std::function<void(int, Transport&)>& run) {
  WaitControl waits;
  waits.timeouts = simulated.timeouts;
  ThreadHub hub(num_leaves, waits);
  LeafThreads threads(&waits);
  threads.Grow(num_leaves);
  threads.ForEach(&hub, [&](int rank) {
    ThreadTransport transport(&hub, rank);
    run(rank, transport);
  });
}

}  // namespace

void Simulate(const SimulatedReduction& simulated, DType dtype,
              const std::vector<int64_t>& num_elements,
              const std::vector<std::vector<const void*>>& inputs,
              const std::vector<std::vector<void*>>& outputs) {
  const ReductionSpec spec =
      ReductionSpec::Parse(simulated.reduction, simulated.local_reduction, dtype);
  const int num_leaves = static_cast<int>(inputs.size());
  const HostRanks hosts = HostsOfNeighbours(simulated.leaves_per_host, num_leaves);
  const Segments segments(num_elements);
  CpuArithmetic arithmetic(KernelsOf(simulated.instruction_set));
  // Out here, since peers may read a leaf's memory until every leaf is done.
  std::vector<LeafScratch> scratch(num_leaves);
  std::vector<HierarchyScratch> hierarchy_scratch(num_leaves);
  ForEachLeaf(simulated, num_leaves, [&](int rank, Transport& transport) {
    const LeafTensors leaf{dtype, segments, inputs[rank], outputs[rank]};
    if (spec.inside == nullptr) {
      return ReduceLeaves(leaf, {*spec.across, transport, arithmetic, scratch[rank]});
    }
    Hierarchy hierarchy(&transport, hosts, &hierarchy_scratch[rank]);
    ReduceLeaves(leaf, {*spec.inside, hierarchy.host(), arithmetic, scratch[rank]});
    hierarchy.CombineHosts(*spec.across, dtype, segments, outputs[rank], arithmetic);
  });
}

void SimulateCompressed(const SimulatedReduction& simulated, const std::string& codec, DType dtype,
                        const std::vector<int64_t>& num_elements,
                        const std::vector<std::vector<const void*>>& inputs,
                        const std::vector<std::vector<void*>>& outputs,
                        const SimulatedResiduals& residuals) {
  const int num_leaves = static_cast<int>(inputs.size());
  std::vector<CompressedScratch> scratch(num_leaves);
  std::vector<Shape> shapes;
  for (int64_t count : num_elements) shapes.push_back({count});
  const Reduction& reduction = *ReductionSpec::Parse(simulated.reduction, "", dtype).across;
  ForEachLeaf(simulated, num_leaves, [&](int rank, Transport& transport) {
    CompressedTensors tensors{"",     simulated.reduction, codec,        dtype,
                              shapes, {inputs[rank]},      outputs[rank]};
    if (!residuals.of_leaves.empty()) {
      tensors.residuals = {residuals.of_leaves[rank]};
      tensors.part_residuals = residuals.of_parts[rank];
    }
    ExecuteCompressedAllreduce(tensors, reduction, transport, simulated.instruction_set,
                               scratch[rank], nullptr);
  });
}

}  // namespace adasum
