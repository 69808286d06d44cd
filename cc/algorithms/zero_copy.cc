#include "cc/algorithms/zero_copy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cc/algorithms/chunks.h"
#include "cc/algorithms/schedule.h"
#include "cc/algorithms/tiles.h"
#include "cc/algorithms/weights_of_leaves.h"
#include "cc/core/bytes.h"

namespace adasum {
namespace {

constexpr int64_t kPageBytes = 4096;

// One allreduce of a vector of B bytes on N leaves. Each leaf combines an N-th of all vectors for
// all. Passes over memory:
// * products: reads its part of all vectors, B in all;
// * combination: reads them again, and writes the result to all leaves, B in all.
// Without products the first is left out.
class ZeroCopy {
 public:
  ZeroCopy(const LeafTensors& tensors, const CollectiveContext& context, SharedTensors& shared)
      : tensors_(tensors),
        context_(context),
        arithmetic_(context.arithmetic),
        shared_(shared),
        size_(context.transport.size()),
        element_bytes_(ElementBytes(tensors.dtype)),
        tree_(MakeTree(size_)),
        is_long_(tensors.segments.num_elements() * element_bytes_ >= kMoreThanCached),
        own_(shared.CombinedBy(context.transport.rank())),
        chunks_(own_, {},
                context.tuning.chunk_bytes * context.arithmetic.Width() / element_bytes_) {}

  bool Run() {
    if (NeedsMoments() && !LearnWeights()) return false;
    // From the end on: the last values are still in the caches.
    for (int64_t i = chunks_.size() - 1; i >= 0; --i) CombineChunk(i);
    return true;
  }

 private:
  bool NeedsMoments() const { return context_.reduction.NeedsMoments(); }

  // Bytes from the start of the segment.
  int64_t Skip(int64_t segment, Range part) const {
    return (part.begin - tensors_.segments.offset(segment)) * element_bytes_;
  }

  // The operands of all leaves in `range`, and where their results go.
  std::vector<Stack> Stacks(Range range) const;

  // One line of each page of a chunk's operands: the processor's own prefetching ends with a page,
  // and shared memory has pages of 4 KiB, which it does not know the way to.
  void Prefetch(int64_t chunk) const;

  bool LearnWeights();
  void CombineChunk(int64_t chunk);
  // By the tree, node by node. Returns where the result is: in `between`, a tile of every leaf. By
  // several cores at once, as is Deliver.
  const char* CombineNodes(Range tile, char* between, Arithmetic& arithmetic) const;
  void Deliver(Range tile, const char* result, Arithmetic& arithmetic) const;

  const LeafTensors& tensors_;
  const CollectiveContext& context_;
  Arithmetic& arithmetic_;
  SharedTensors& shared_;
  const int size_;
  const int64_t element_bytes_;
  const std::vector<TreeNode> tree_;
  const bool is_long_;
  const Range own_;
  const Chunks chunks_;
  std::vector<double> weights_;  // of every segment, those of all leaves
};

std::vector<Stack> ZeroCopy::Stacks(Range range) const {
  const int own = context_.transport.rank();
  std::vector<Stack> stacks;
  tensors_.segments.ForEach(range, [&](int64_t segment, Range part) {
    const int64_t skip = Skip(segment, part);
    void* const own_output = shared_.Output(own, segment);
    // No cache has the lines of a long output that is not an input: it is delivered as are the
    // peers', past the caches where that is quicker.
    const bool is_delivered = is_long_ && own_output != shared_.Input(own, segment);
    stacks.push_back({segment,
                      {},
                      is_delivered ? nullptr : At(own_output, skip),
                      {},
                      part.size(),
                      part.begin - own_.begin});
    Stack& stack = stacks.back();
    int copy = 0;
    if (is_delivered) stack.copies[copy++] = At(own_output, skip);
    for (int leaf = 0; leaf < size_; ++leaf) {
      stack.operands[leaf] = At(shared_.Input(leaf, segment), skip);
      if (leaf != own) stack.copies[copy++] = At(shared_.Output(leaf, segment), skip);
    }
  });
  return stacks;
}

bool ZeroCopy::LearnWeights() {
  std::vector<double> grams(tensors_.segments.size() * GramSize(size_));
  for (int64_t i = 0; i < chunks_.size(); ++i) {
    Prefetch(i + 1);
    arithmetic_.AddGrams(tensors_.dtype, size_, Stacks(chunks_.keep(i)), grams.data());
  }
  return WeightsOfLeaves(tensors_, context_, tree_, std::move(grams), &weights_);
}

void ZeroCopy::Prefetch(int64_t chunk) const {
  if (chunk < 0) return;  // and behind the last there is nothing
  tensors_.segments.ForEach(chunks_.keep(chunk), [&](int64_t segment, Range part) {
    for (int leaf = 0; leaf < size_; ++leaf) {
      const char* const input = At(shared_.Input(leaf, segment), Skip(segment, part));
      for (int64_t i = 0; i < part.size() * element_bytes_; i += kPageBytes) {
        __builtin_prefetch(input + i);
      }
    }
  });
}

void ZeroCopy::CombineChunk(int64_t chunk) {
  Prefetch(chunk - 1);
  const Range own = chunks_.keep(chunk);
  if (NeedsMoments()) {
    return arithmetic_.CombineStacks(tensors_.dtype, size_, Stacks(own), weights_.data());
  }
  const int64_t room_bytes = size_ * kTileBytes;
  char* const rooms =
      static_cast<char*>(context_.scratch.receive.Get(arithmetic_.Width() * room_bytes));
  ForEachTile(own, kTileBytes / element_bytes_, arithmetic_, rooms, room_bytes,
              [this](Range tile, char* room, Arithmetic& arithmetic) {
                Deliver(tile, CombineNodes(tile, room, arithmetic), arithmetic);
              });
}

// What is combined stays in the first caches until all leaves have it.
const char* ZeroCopy::CombineNodes(Range tile, char* between, Arithmetic& arithmetic) const {
  std::vector<bool> is_between(size_, false);
  for (const TreeNode& node : tree_) {
    char* const out = between + node.left * kTileBytes;
    std::vector<Piece> pieces;
    tensors_.segments.ForEach(tile, [&](int64_t segment, Range part) {
      const int64_t inside = (part.begin - tile.begin) * element_bytes_;
      const auto operand = [&](int leaf) -> const void* {
        if (is_between[leaf]) return At(between, leaf * kTileBytes + inside);
        return At(shared_.Input(leaf, segment), Skip(segment, part));
      };
      pieces.push_back({segment, operand(node.left), operand(node.right), At(out, inside), nullptr,
                        part.size()});
    });
    context_.reduction.Combine(
        {tensors_.dtype, pieces, node.leaves, node.is_final, {}, arithmetic});
    is_between[node.left] = true;
  }
  return between + tree_.back().left * kTileBytes;
}

void ZeroCopy::Deliver(Range tile, const char* result, Arithmetic& arithmetic) const {
  std::vector<Piece> pieces;
  tensors_.segments.ForEach(tile, [&](int64_t segment, Range part) {
    const void* from = At(result, (part.begin - tile.begin) * element_bytes_);
    for (int leaf = 0; leaf < size_; ++leaf) {
      if (!shared_.WantsResult(leaf, segment)) continue;
      void* to = At(shared_.Output(leaf, segment), Skip(segment, part));
      pieces.push_back({segment, from, nullptr, to, nullptr, part.size()});
    }
  });
  arithmetic.DeliverPieces(tensors_.dtype, pieces);
}

}  // namespace

bool ZeroCopyAllreduce(const LeafTensors& tensors, const CollectiveContext& context,
                       SharedTensors& shared) {
  const bool is_done = ZeroCopy(tensors, context, shared).Run();
  is_done ? shared.Finish() : shared.GiveUp();
  return is_done;
}

}  // namespace adasum
