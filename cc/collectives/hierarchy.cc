#include "cc/collectives/hierarchy.h"

#include <algorithm>

#include "cc/algorithms/reduce_leaves.h"
#include "cc/collectives/blocks.h"
#include "cc/transport/dissemination.h"

namespace adasum {
namespace {

// The longest run, in even shares.
constexpr int64_t kMostUnequal = 2;

int FewestRanks(const HostRanks& hosts) {
  size_t fewest = hosts[0].size();
  for (const std::vector<int>& ranks : hosts) fewest = std::min(fewest, ranks.size());
  return static_cast<int>(fewest);
}

}  // namespace

Hierarchy::Hierarchy(Transport* all, const HostRanks& hosts, HierarchyScratch* scratch)
    : host_(all, HostOf(all->rank(), hosts)),
      num_runs_(FewestRanks(hosts)),
      scratch_(scratch),
      has_several_hosts_(hosts.size() > 1) {
  if (!has_several_hosts_ || host_.rank() >= num_runs_) return;
  std::vector<int> counterparts;
  for (const std::vector<int>& ranks : hosts) counterparts.push_back(ranks[host_.rank()]);
  across_.emplace(all, std::move(counterparts));
}

void Hierarchy::ReduceHost(const LeafTensors& leaf, const CollectiveContext& context) const {
  const auto in_blocks = [&] { ReduceInBlocks(leaf, context); };
  const int64_t num_bytes = leaf.segments.num_elements() * ElementBytes(leaf.dtype);
  if (!has_several_hosts_ || context.reduction.NeedsMoments() ||
      num_bytes <= BlockBytes(context.transport)) {
    return in_blocks();
  }
  std::vector<Range> shares;
  int64_t longest = 0;
  for (const Range& run : RunsOnHost(leaf.segments)) {
    shares.push_back(leaf.segments.Elements(run));
    longest = std::max(longest, shares.back().size());
  }
  // Whoever has a run sums all of it up, so that it must not be much longer than others.
  if (longest * host_.size() > kMostUnequal * leaf.segments.num_elements()) return in_blocks();
  ReduceShares(leaf, shares, context, in_blocks);
}

void Hierarchy::CombineHosts(const Reduction& reduction, DType dtype, const Segments& segments,
                             const std::vector<void*>& results, Arithmetic& arithmetic,
                             SquaredNorms* norms) {
  if (!has_several_hosts_ || segments.num_elements() == 0) return;
  const StageTensors tensors{dtype, segments, results, arithmetic, norms};
  Barrier(host_);
  if (across_) ReduceOwnRun(reduction, tensors);
  SpreadOwnRun(tensors);
  arithmetic.Finish();
}

Range Hierarchy::Run(const Segments& segments, int k) const {
  // A segment belongs to the run in which its middle lies: contiguous runs, for any sizes.
  auto run_of = [&](int64_t segment) {
    int64_t twice_middle = segments.offset(segment) + segments.offset(segment + 1);
    return std::min<int64_t>(twice_middle * num_runs_ / (2 * segments.num_elements()),
                             num_runs_ - 1);
  };
  Range run{0, 0};
  while (run.begin < segments.size() && run_of(run.begin) < k) ++run.begin;
  for (run.end = run.begin; run.end < segments.size() && run_of(run.end) == k;) ++run.end;
  return run;
}

std::vector<Range> Hierarchy::RunsOnHost(const Segments& segments) const {
  std::vector<Range> runs(host_.size());
  for (int k = 0; k < num_runs_; ++k) runs[k] = Run(segments, k);
  return runs;
}

void Hierarchy::ReduceOwnRun(const Reduction& reduction, const StageTensors& tensors) {
  std::vector<int64_t> num_elements;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  const Range run = Run(tensors.segments, host_.rank());
  for (int64_t segment = run.begin; segment < run.end; ++segment) {
    num_elements.push_back(tensors.segments.offset(segment + 1) - tensors.segments.offset(segment));
    inputs.push_back(tensors.addresses[segment]);
    outputs.push_back(tensors.addresses[segment]);
  }
  const Segments segments(num_elements);
  SquaredNorms* const norms = tensors.norms == nullptr ? nullptr : tensors.norms + run.begin;
  ReduceInBlocks({tensors.dtype, segments, inputs, outputs, norms},
                 {reduction, *across_, tensors.arithmetic, scratch_->across});
  tensors.arithmetic.Finish();  // peers of this host read it next
}

void Hierarchy::SpreadOwnRun(const StageTensors& tensors) {
  if (host_.size() == 1) return;
  SpreadRuns(host_, RunsOnHost(tensors.segments), tensors, scratch_->runs);
}

}  // namespace adasum
