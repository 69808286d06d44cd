#include "cc/algorithms/cross_memory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cc/algorithms/chunks.h"
#include "cc/algorithms/combine_tree.h"
#include "cc/algorithms/fusion_buffer.h"
#include "cc/algorithms/schedule.h"
#include "cc/algorithms/weights_of_leaves.h"
#include "cc/core/bytes.h"

namespace adasum {
namespace {

// One allreduce of a vector of B bytes on N leaves, of which each combines an N-th for all. Passes
// over memory, where fetched chunks stay in a cache:
// * products: fetches its part of the others' vectors (reads B (N - 1) / N) and reads its own;
// * combination: the same again, but the last num_slots_ chunks are still here; writes its own part
//   of the result, and stores it into the others' tensors (B in all).
// Nothing is packed for others, and nothing is read only to be delivered.
class CrossMemory {
 public:
  CrossMemory(const LeafTensors& tensors, const CollectiveContext& context, SharedTensors& shared)
      : tensors_(tensors),
        context_(context),
        arithmetic_(context.arithmetic),
        shared_(shared),
        buffer_(tensors, context),
        rank_(context.transport.rank()),
        size_(context.transport.size()),
        tree_(MakeTree(size_)),
        own_(shared.CombinedBy(rank_)),
        chunks_(own_, {}, buffer_.Elements(context.tuning.chunk_bytes * arithmetic_.Width())),
        slice_bytes_(buffer_.Bytes(chunks_.keep(0))),
        num_slots_(NumSlots()),
        slots_(static_cast<char*>(context.scratch.work[0].Get(
            num_slots_ * (size_ - 1) * slice_bytes_ + BytesBetween(size_, arithmetic_)))),
        between_(slots_ + num_slots_ * (size_ - 1) * slice_bytes_) {}

  bool Run() {
    if (NeedsMoments() && !LearnWeights()) return false;
    // From the end on: the last chunks are still in the caches.
    const int64_t first_here = NeedsMoments() ? chunks_.size() - num_slots_ : chunks_.size();
    for (int64_t i = chunks_.size() - 1; i >= 0; --i) {
      if (i < first_here) Fetch(i);
      Combine(i);
      if (!shared_.has_shares()) Store(i);
    }
    return true;
  }

 private:
  bool NeedsMoments() const { return context_.reduction.NeedsMoments(); }
  // Without products each chunk is fetched once: into the lines that the one before left in a
  // cache.
  int64_t NumSlots() const {
    if (!NeedsMoments()) return 1;
    const int64_t kept = context_.tuning.packed_chunks / (size_ - 1);
    return std::min(std::max<int64_t>(1, kept), chunks_.size());
  }

  // Where chunk i of another leaf's vector lies here.
  char* Slot(int64_t i, int leaf) const {
    const int64_t index = i % num_slots_ * (size_ - 1) + leaf - (leaf > rank_);
    return slots_ + index * slice_bytes_;
  }
  std::vector<const void*> Runs(int64_t i) const;

  // Calls copy(leaf, range) for parts of chunk i, of every other leaf: cores side by side, ranks
  // each from another one at first.
  template <typename Copy>
  void ForEachCopy(const char* name, int64_t i, Copy copy);
  void Fetch(int64_t i);
  void Combine(int64_t i);
  void Store(int64_t i);
  bool LearnWeights();

  const LeafTensors& tensors_;
  const CollectiveContext& context_;
  Arithmetic& arithmetic_;
  SharedTensors& shared_;
  FusionBuffer buffer_;
  const int rank_;
  const int size_;
  const std::vector<TreeNode> tree_;
  const Range own_;
  const Chunks chunks_;
  const int64_t slice_bytes_;  // of one leaf's chunk
  const int64_t num_slots_;    // chunks that stay here
  char* const slots_;
  char* const between_;          // what is combined on the way without weights
  std::vector<double> weights_;  // of every segment, those of all leaves
};

std::vector<const void*> CrossMemory::Runs(int64_t i) const {
  return RunsOfLeaves(rank_, size_, [&](int leaf) { return Slot(i, leaf); });
}

template <typename Copy>
void CrossMemory::ForEachCopy(const char* name, int64_t i, Copy copy) {
  const Range chunk = chunks_.keep(i);
  const int num_slices = arithmetic_.Width();
  arithmetic_.RunTasks(name, (size_ - 1) * buffer_.Bytes(chunk), (size_ - 1) * num_slices,
                       [&](int64_t task, Arithmetic&) {
                         const int leaf = (rank_ + 1 + static_cast<int>(task / num_slices)) % size_;
                         const Range slice = PartOf(task % num_slices, num_slices, chunk.size());
                         copy(leaf, Range{chunk.begin + slice.begin, chunk.begin + slice.end});
                       });
}

void CrossMemory::Fetch(int64_t i) {
  ForEachCopy("fetch from all", i, [&](int leaf, Range range) {
    char* const to = Slot(i, leaf) + buffer_.Bytes({chunks_.keep(i).begin, range.begin});
    std::vector<RemoteBytes> parts;
    tensors_.segments.ForEach(range, [&](int64_t segment, Range part) {
      const int64_t skip = buffer_.Bytes({tensors_.segments.offset(segment), part.begin});
      parts.push_back({to + buffer_.Bytes({range.begin, part.begin}),
                       shared_.InputAddress(leaf, segment) + skip, buffer_.Bytes(part)});
    });
    context_.transport.Fetch(leaf, parts);
  });
}

void CrossMemory::Store(int64_t i) {
  ForEachCopy("store to all", i, [&](int leaf, Range range) {
    std::vector<RemoteBytes> parts;
    tensors_.segments.ForEach(range, [&](int64_t segment, Range part) {
      const int64_t skip = buffer_.Bytes({tensors_.segments.offset(segment), part.begin});
      parts.push_back({At(tensors_.outputs[segment], skip),
                       shared_.OutputAddress(leaf, segment) + skip, buffer_.Bytes(part)});
    });
    context_.transport.Store(leaf, parts);
  });
}

bool CrossMemory::LearnWeights() {
  std::vector<double> grams(tensors_.segments.size() * GramSize(size_));
  for (int64_t i = 0; i < chunks_.size(); ++i) {
    Fetch(i);
    arithmetic_.AddGrams(buffer_.dtype(), size_,
                         buffer_.Stacks(chunks_.keep(i), Runs(i), nullptr, own_.begin),
                         grams.data());
  }
  return WeightsOfLeaves(tensors_, context_, tree_, std::move(grams), &weights_);
}

// To the caller's tensors, from which it is stored while it is in a cache.
void CrossMemory::Combine(int64_t i) {
  const Range chunk = chunks_.keep(i);
  if (!NeedsMoments()) {
    return CombineTree(buffer_, context_, tree_, chunk, Runs(i), nullptr, between_);
  }
  arithmetic_.CombineStacks(buffer_.dtype(), size_,
                            buffer_.Stacks(chunk, Runs(i), nullptr, own_.begin), weights_.data());
}

}  // namespace

bool CrossMemoryAllreduce(const LeafTensors& tensors, const CollectiveContext& context,
                          SharedTensors& shared) {
  const bool is_done = CrossMemory(tensors, context, shared).Run();
  is_done ? shared.Finish() : shared.GiveUp();
  return is_done;
}

}  // namespace adasum
