#include "cc/collectives/owned_chunks.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "cc/collectives/broadcast.h"

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

void Add(const char* theirs, std::vector<Moments>* sums) {
  for (Moments& sum : *sums) {
    Moments each;
    std::memcpy(&each, theirs, sizeof(each));
    theirs += sizeof(each);
    sum.dot += each.dot;
    sum.left_norm2 += each.left_norm2;
    sum.right_norm2 += each.right_norm2;
  }
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

// Few ranks tell all: a message less each way. Of many each would hear as much as it reduces.
void OwnedChunks::SumOverRanks(std::vector<Moments>* moments) const {
  constexpr int kFew = 8;
  transport_.size() <= kFew ? SumGathered(moments) : SumAtFirstRank(moments);
}

// In the order of the ranks.
void OwnedChunks::SumGathered(std::vector<Moments>* moments) const {
  const size_t num_bytes = moments->size() * sizeof(Moments);
  messages_.own.resize(num_bytes);
  std::memcpy(messages_.own.data(), moments->data(), num_bytes);
  GatherBytes(transport_, &messages_);
  std::fill(moments->begin(), moments->end(), Moments());
  for (int rank = 0; rank < transport_.size(); ++rank) {
    Add(messages_.all.data() + rank * num_bytes, moments);
  }
}

// By a binomial tree: ranks 2^k and its odd multiples are done in round k.
void OwnedChunks::SumAtFirstRank(std::vector<Moments>* moments) const {
  const int rank = transport_.rank(), size = transport_.size();
  const int64_t num_bytes = static_cast<int64_t>(moments->size() * sizeof(Moments));
  messages_.own.resize(num_bytes);
  messages_.all.resize(num_bytes);
  for (int distance = 1; distance < size; distance *= 2) {
    if ((rank & distance) != 0) {
      std::memcpy(messages_.own.data(), moments->data(), num_bytes);
      transport_.SendRecv({rank - distance, messages_.own.data(), num_bytes},
                          {rank - distance, nullptr, 0});
      break;
    }
    if (rank + distance >= size) continue;
    transport_.SendRecv({rank + distance, nullptr, 0},
                        {rank + distance, messages_.all.data(), num_bytes});
    Add(messages_.all.data(), moments);
  }
  std::memcpy(messages_.own.data(), moments->data(), num_bytes);
  Broadcast(transport_, 0, {messages_.own.data()}, {num_bytes});
  std::memcpy(moments->data(), messages_.own.data(), num_bytes);
}

}  // namespace adasum
