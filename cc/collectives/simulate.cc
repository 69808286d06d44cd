#include "cc/collectives/simulate.h"

#include <numeric>
#include <string>

#include "cc/algorithms/reduce_leaves.h"
#include "cc/arithmetic/cpu_arithmetic.h"
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
  WaitControl waits;
  waits.timeouts = simulated.timeouts;
  ThreadHub hub(num_leaves, waits);
  CpuArithmetic arithmetic(KernelsOf(simulated.instruction_set));
  // Out here, since peers may read a leaf's memory until every leaf is done.
  std::vector<LeafScratch> scratch(num_leaves);
  std::vector<HierarchyScratch> hierarchy_scratch(num_leaves);
  LeafThreads threads(&waits);
  threads.Grow(num_leaves);
  threads.ForEach(&hub, [&](int rank) {
    ThreadTransport transport(&hub, rank);
    const LeafTensors leaf{dtype, segments, inputs[rank], outputs[rank]};
    if (spec.inside == nullptr) {
      return ReduceLeaves(leaf, {*spec.across, transport, arithmetic, scratch[rank]});
    }
    Hierarchy hierarchy(&transport, hosts, &hierarchy_scratch[rank]);
    ReduceLeaves(leaf, {*spec.inside, hierarchy.host(), arithmetic, scratch[rank]});
    hierarchy.CombineHosts(*spec.across, dtype, segments, outputs[rank], arithmetic);
  });
}

}  // namespace adasum
