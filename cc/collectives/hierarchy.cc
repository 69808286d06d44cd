#include "cc/collectives/hierarchy.h"

#include <algorithm>
#include <cstring>

#include "cc/collectives/blocks.h"
#include "cc/transport/dissemination.h"

namespace adasum {
namespace {

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

// One list of tensors, as the stages hand it on.
struct Hierarchy::Tensors {
  DType dtype;
  const Segments& segments;
  const std::vector<void*>& addresses;
  Arithmetic& arithmetic;
  SquaredNorms* norms;

  // Calls visit(address, offset, num_bytes) for what each tensor has of `part`; it lies `offset`
  // bytes behind the begin of the part.
  template <typename Visit>
  void ForEachPiece(Range part, Visit visit) const {
    const int64_t element_bytes = ElementBytes(dtype);
    segments.ForEach(part, [&](int64_t segment, Range piece) {
      int64_t inside = (piece.begin - segments.offset(segment)) * element_bytes;
      visit(static_cast<char*>(addresses[segment]) + inside,
            (piece.begin - part.begin) * element_bytes, piece.size() * element_bytes);
    });
  }
};

void Hierarchy::CombineHosts(const Reduction& reduction, DType dtype, const Segments& segments,
                             const std::vector<void*>& results, Arithmetic& arithmetic,
                             SquaredNorms* norms) {
  if (!has_several_hosts_ || segments.num_elements() == 0) return;
  const Tensors tensors{dtype, segments, results, arithmetic, norms};
  Barrier(host_);
  if (across_) ReduceOwnRun(reduction, tensors);
  SpreadRuns(tensors);
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

void Hierarchy::ReduceOwnRun(const Reduction& reduction, const Tensors& tensors) {
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
}

void Hierarchy::SpreadRuns(const Tensors& tensors) {
  if (host_.size() == 1) return;
  std::vector<Range> runs(host_.size());
  std::vector<Range> norms_of(host_.size());
  int64_t longest = 0;
  for (int k = 0; k < num_runs_; ++k) {
    Range run = Run(tensors.segments, k);
    runs[k] = {tensors.segments.offset(run.begin), tensors.segments.offset(run.end)};
    if (tensors.norms != nullptr) norms_of[k] = run;
    longest = std::max(longest, runs[k].size());
  }
  const int64_t chunk = BlockBytes(host_) / ElementBytes(tensors.dtype);
  for (int64_t done = 0; done < longest; done += chunk) {
    std::vector<Range> parts;
    for (const Range& run : runs) {
      parts.push_back(
          {std::min(run.begin + done, run.end), std::min(run.begin + done + chunk, run.end)});
    }
    SpreadParts(tensors, parts, norms_of);
    norms_of.assign(host_.size(), {});  // with the first parts
  }
}

void Hierarchy::SpreadParts(const Tensors& tensors, const std::vector<Range>& parts,
                            const std::vector<Range>& norms_of) {
  constexpr int64_t kNormsBytes = sizeof(SquaredNorms);
  Barrier(host_);
  const int64_t element_bytes = ElementBytes(tensors.dtype);
  const Range own = parts[host_.rank()];
  const int64_t own_bytes = own.size() * element_bytes;
  const Range own_norms = norms_of[host_.rank()];
  const int64_t shown_bytes = own_bytes + own_norms.size() * kNormsBytes;
  char* shown = static_cast<char*>(Shown(shown_bytes));
  tensors.ForEachPiece(own, [&](const void* address, int64_t offset, int64_t num_bytes) {
    tensors.arithmetic.Copy(shown + offset, address, num_bytes);
  });
  if (own_norms.size() > 0) {
    std::memcpy(shown + own_bytes, tensors.norms + own_norms.begin, shown_bytes - own_bytes);
  }
  // In round k rank r meets r ^ k, so that both sides of each exchange are there.
  for (int round = 1; round < 2 * host_.size(); ++round) {
    int peer = host_.rank() ^ round;
    if (peer >= host_.size()) continue;
    const int64_t part_bytes = parts[peer].size() * element_bytes;
    const int64_t norms_bytes = norms_of[peer].size() * kNormsBytes;
    const int64_t peer_bytes = part_bytes + norms_bytes;
    if (shown_bytes + peer_bytes == 0) continue;
    void* received = host_.CanRead(peer) ? nullptr : scratch_->across.receive.Get(peer_bytes);
    const char* theirs = static_cast<const char*>(
        host_.Exchange({peer, shown, shown_bytes}, {peer, received, peer_bytes}));
    tensors.ForEachPiece(parts[peer], [&](void* address, int64_t offset, int64_t num_bytes) {
      tensors.arithmetic.Deliver(address, theirs + offset, num_bytes);
    });
    if (norms_bytes > 0) {
      std::memcpy(tensors.norms + norms_of[peer].begin, theirs + part_bytes, norms_bytes);
    }
  }
}

void* Hierarchy::Shown(int64_t num_bytes) {
  if (num_bytes == 0) return nullptr;
  return host_.requires_workspace() ? host_.Workspace(num_bytes) : scratch_->shown.Get(num_bytes);
}

}  // namespace adasum
