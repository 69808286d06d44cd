#include "cc/algorithms/zero_copy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cc/algorithms/schedule.h"
#include "cc/algorithms/weights_of_leaves.h"
#include "cc/core/bytes.h"

namespace adasum {
namespace {

// What is combined at a time stays in the first caches until all leaves have it.
constexpr int64_t kTileBytes = int64_t{16} << 10;
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
        own_(PartOf(context.transport.rank(), size_, tensors.segments.num_elements())),
        tile_(kTileBytes * arithmetic_.Width() / element_bytes_),
        between_(static_cast<char*>(context.scratch.receive.Get(size_ * tile_ * element_bytes_))) {}

  bool Run() {
    if (NeedsMoments() && !LearnWeights()) return false;
    // From the end on: the last values are still in the caches.
    const int64_t num_tiles = (own_.size() + tile_ - 1) / tile_;
    for (int64_t i = num_tiles - 1; i >= 0; --i) {
      const int64_t begin = own_.begin + i * tile_;
      CombineTile({begin, std::min(begin + tile_, own_.end)});
    }
    return true;
  }

 private:
  bool NeedsMoments() const { return context_.reduction.NeedsMoments(); }

  // Bytes from the start of the segment.
  int64_t Skip(int64_t segment, Range part) const {
    return (part.begin - tensors_.segments.offset(segment)) * element_bytes_;
  }

  // The operands of all leaves in `range`; results go to the run `out`.
  std::vector<Stack> Stacks(Range range, char* out) const;

  // One line of each page of the tile's operands: the processor's own prefetching ends with a page,
  // and shared memory has pages of 4 KiB, which it does not know the way to.
  void Prefetch(Range tile) const;

  bool LearnWeights();
  void CombineTile(Range tile);
  // By the tree, node by node. Returns where the result is.
  char* CombineNodes(Range tile);
  void Deliver(Range tile, const char* result);

  const LeafTensors& tensors_;
  const CollectiveContext& context_;
  Arithmetic& arithmetic_;
  SharedTensors& shared_;
  const int size_;
  const int64_t element_bytes_;
  const std::vector<TreeNode> tree_;
  const Range own_;
  const int64_t tile_;           // elements
  char* const between_;          // a tile of every leaf
  std::vector<double> weights_;  // of every segment, those of all leaves
};

std::vector<Stack> ZeroCopy::Stacks(Range range, char* out) const {
  std::vector<Stack> stacks;
  tensors_.segments.ForEach(range, [&](int64_t segment, Range part) {
    void* const result =
        out == nullptr ? nullptr : At(out, (part.begin - range.begin) * element_bytes_);
    stacks.push_back({segment, {}, result, nullptr, part.size()});
    for (int leaf = 0; leaf < size_; ++leaf) {
      stacks.back().operands[leaf] = At(shared_.Input(leaf, segment), Skip(segment, part));
    }
  });
  return stacks;
}

bool ZeroCopy::LearnWeights() {
  std::vector<double> grams(tensors_.segments.size() * GramSize(size_));
  for (int64_t begin = own_.begin; begin < own_.end; begin += tile_) {
    const int64_t end = std::min(begin + tile_, own_.end);
    Prefetch({end, std::min(end + tile_, own_.end)});
    arithmetic_.AddGrams(tensors_.dtype, size_, Stacks({begin, end}, nullptr), grams.data());
  }
  return WeightsOfLeaves(tensors_, context_, tree_, std::move(grams), &weights_);
}

void ZeroCopy::Prefetch(Range tile) const {
  tensors_.segments.ForEach(tile, [&](int64_t segment, Range part) {
    for (int leaf = 0; leaf < size_; ++leaf) {
      const char* const input = At(shared_.Input(leaf, segment), Skip(segment, part));
      for (int64_t i = 0; i < part.size() * element_bytes_; i += kPageBytes) {
        __builtin_prefetch(input + i);
      }
    }
  });
}

void ZeroCopy::CombineTile(Range tile) {
  Prefetch({std::max(own_.begin, tile.begin - tile_), tile.begin});
  if (!NeedsMoments()) return Deliver(tile, CombineNodes(tile));
  arithmetic_.CombineStacks(tensors_.dtype, size_, Stacks(tile, between_), weights_.data());
  Deliver(tile, between_);
}

char* ZeroCopy::CombineNodes(Range tile) {
  const int64_t tile_bytes = tile_ * element_bytes_;
  std::vector<bool> is_between(size_, false);
  for (const TreeNode& node : tree_) {
    char* const out = between_ + node.left * tile_bytes;
    std::vector<Piece> pieces;
    tensors_.segments.ForEach(tile, [&](int64_t segment, Range part) {
      const int64_t inside = (part.begin - tile.begin) * element_bytes_;
      const auto operand = [&](int leaf) -> const void* {
        if (is_between[leaf]) return At(between_, leaf * tile_bytes + inside);
        return At(shared_.Input(leaf, segment), Skip(segment, part));
      };
      pieces.push_back({segment, operand(node.left), operand(node.right), At(out, inside), nullptr,
                        part.size()});
    });
    context_.reduction.Combine(
        {tensors_.dtype, pieces, node.leaves, node.is_final, {}, arithmetic_});
    is_between[node.left] = true;
  }
  return between_ + tree_.back().left * tile_bytes;
}

void ZeroCopy::Deliver(Range tile, const char* result) {
  std::vector<Piece> pieces;
  tensors_.segments.ForEach(tile, [&](int64_t segment, Range part) {
    const void* from = At(result, (part.begin - tile.begin) * element_bytes_);
    for (int leaf = 0; leaf < size_; ++leaf) {
      void* to = At(shared_.Output(leaf, segment), Skip(segment, part));
      pieces.push_back({segment, from, nullptr, to, nullptr, part.size()});
    }
  });
  arithmetic_.DeliverPieces(tensors_.dtype, pieces);
}

}  // namespace

bool ZeroCopyAllreduce(const LeafTensors& tensors, const CollectiveContext& context,
                       SharedTensors& shared) {
  const bool is_done = ZeroCopy(tensors, context, shared).Run();
  is_done ? shared.Finish() : shared.GiveUp();
  return is_done;
}

}  // namespace adasum
