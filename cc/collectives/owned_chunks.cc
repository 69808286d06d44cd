#include "cc/collectives/owned_chunks.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "cc/collectives/left_out.h"

namespace adasum {
namespace {

// Nodes of which none needs the result of another, one level after the other: so many times ranks
// tell each other their moments.
std::vector<std::vector<TreeNode>> Levels(int size) {
  std::vector<std::vector<TreeNode>> levels;
  std::set<int> met;
  for (const TreeNode& node : MakeTree(size)) {
    if (levels.empty() || met.count(node.left) > 0 || met.count(node.right) > 0) {
      levels.emplace_back();
      met.clear();
    }
    levels.back().push_back(node);
    met.insert({node.left, node.right});
  }
  return levels;
}

}  // namespace

void OwnedChunks::Reduce(const std::vector<OwnedChunk>& chunks) const {
  const std::set<std::string> names(reductions_.begin(), reductions_.end());
  for (const std::vector<TreeNode>& level : Levels(transport_.size())) {
    for (const std::string& name : names) {
      const Reduction& reduction = FindReduction(name);
      std::vector<Pieces> of_nodes;
      for (const TreeNode& node : level) of_nodes.push_back(PiecesOf(chunks, node, name));
      std::vector<std::vector<Moments>> moments(level.size());
      if (reduction.NeedsMoments()) moments = MomentsOf(of_nodes);
      for (size_t i = 0; i < level.size(); ++i) {
        reduction.Combine(
            {dtype_, of_nodes[i], level[i].leaves, level[i].is_final, moments[i], arithmetic_});
      }
    }
  }
  arithmetic_.Finish();
}

OwnedChunks::Pieces OwnedChunks::PiecesOf(const std::vector<OwnedChunk>& chunks,
                                          const TreeNode& node,
                                          const std::string& reduction) const {
  Pieces pieces;
  for (const OwnedChunk& chunk : chunks) {
    char* const left = chunk.leaves[node.left].get();
    const char* const right = chunk.leaves[node.right].get();
    segments_.ForEach(chunk.range, [&](int64_t segment, Range part) {
      if (reductions_[segment] != reduction) return;
      const int64_t offset = (part.begin - chunk.range.begin) * ElementBytes(dtype_);
      pieces.push_back(
          {segment, left + offset, right + offset, left + offset, nullptr, part.size()});
    });
  }
  return pieces;
}

std::vector<std::vector<Moments>> OwnedChunks::MomentsOf(
    const std::vector<Pieces>& of_nodes) const {
  const int64_t num_segments = segments_.size();
  std::vector<Moments> sums(of_nodes.size() * num_segments);
  for (size_t i = 0; i < of_nodes.size(); ++i) {
    arithmetic_.AddMoments(dtype_, of_nodes[i], sums.data() + i * num_segments);
  }
  arithmetic_.AwaitMoments();
  SumOverRanks(&sums);
  std::vector<std::vector<Moments>> moments;
  for (auto begin = sums.begin(); begin != sums.end(); begin += num_segments) {
    moments.emplace_back(begin, begin + num_segments);
  }
  return moments;
}

// In the order of the ranks, so that all have the same bits.
void OwnedChunks::SumOverRanks(std::vector<Moments>* moments) const {
  const size_t num_bytes = moments->size() * sizeof(Moments);
  messages_.own.resize(num_bytes);
  std::memcpy(messages_.own.data(), moments->data(), num_bytes);
  GatherBytes(transport_, messages_.own, &messages_.all);
  std::fill(moments->begin(), moments->end(), Moments());
  for (int rank = 0; rank < transport_.size(); ++rank) {
    for (size_t i = 0; i < moments->size(); ++i) {
      Moments theirs;
      std::memcpy(&theirs, messages_.all.data() + rank * num_bytes + i * sizeof(Moments),
                  sizeof(Moments));
      (*moments)[i].dot += theirs.dot;
      (*moments)[i].left_norm2 += theirs.left_norm2;
      (*moments)[i].right_norm2 += theirs.right_norm2;
    }
  }
}

}  // namespace adasum
