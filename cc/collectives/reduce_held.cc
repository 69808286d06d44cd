#include "cc/collectives/reduce_held.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "cc/algorithms/schedule.h"
#include "cc/algorithms/tree_weights.h"
#include "cc/transport/gather.h"
#include "cc/transport/peer_bytes.h"

namespace adasum {
namespace {

// In the order of the ranks, so that all have the same bits.
void SumOverRanks(Transport& transport, double* values, size_t count) {
  const size_t num_bytes = count * sizeof(double);
  const std::string mine(reinterpret_cast<const char*>(values), num_bytes);
  std::vector<double> theirs(count);
  std::fill(values, values + count, 0.0);
  int rank = 0;
  for (const std::string& text : GatherTexts(transport, mine)) {
    if (text.size() != num_bytes) {
      RefuseBytes(transport.WorldRank(rank), std::to_string(num_bytes) + " bytes of sums",
                  std::to_string(text.size()));
    }
    ++rank;
    std::memcpy(theirs.data(), text.data(), num_bytes);
    for (size_t i = 0; i < count; ++i) values[i] += theirs[i];
  }
}

// The nodes of the tree, those together that need no other of the same level.
std::vector<std::vector<TreeNode>> LevelsOf(int num_leaves) {
  std::vector<std::vector<TreeNode>> levels;
  std::vector<size_t> depths(num_leaves);
  for (const TreeNode& node : MakeTree(num_leaves)) {
    const size_t depth = std::max(depths[node.left], depths[node.right]);
    if (levels.size() == depth) levels.emplace_back();
    levels[depth].push_back(node);
    depths[node.left] = depth + 1;
  }
  return levels;
}

class Reducer {
 public:
  Reducer(const HeldLeaves& held, const Reduction& reduction, Transport& transport,
          Arithmetic& arithmetic)
      : held_(held),
        reduction_(reduction),
        transport_(transport),
        arithmetic_(arithmetic),
        n_(held.num_leaves) {}

  void Run() {
    std::vector<int64_t> rest(held_.segments.size());
    std::iota(rest.begin(), rest.end(), 0);
    if (n_ == 1) {
      for (const HeldSegment& segment : held_.segments) {
        arithmetic_.Copy(segment.out, segment.leaves[0],
                         segment.num_elements * ElementBytes(held_.dtype));
      }
      rest.clear();
    }
    if (reduction_.NeedsMoments() && n_ > 1 && n_ <= kMostOperands) rest = CombineByWeights();
    if (!rest.empty()) GoThroughTree(rest);
    arithmetic_.Finish();
  }

 private:
  // Returns the segments whose weights can't be told from the products of the leaves: the same on
  // all ranks.
  std::vector<int64_t> CombineByWeights();
  // Of `chosen` segments: a level costs one sum of moments.
  void GoThroughTree(const std::vector<int64_t>& chosen);
  std::vector<Piece> PiecesOf(const TreeNode& node, const std::vector<int64_t>& chosen,
                              int64_t first) const;

  const HeldLeaves& held_;
  const Reduction& reduction_;
  Transport& transport_;
  Arithmetic& arithmetic_;
  const int n_;
};

std::vector<int64_t> Reducer::CombineByWeights() {
  const int64_t num_segments = static_cast<int64_t>(held_.segments.size());
  std::vector<Stack> stacks;
  for (int64_t i = 0; i < num_segments; ++i) {
    const HeldSegment& segment = held_.segments[i];
    stacks.push_back({i, {}, segment.out, {}, segment.num_elements});
    std::copy(segment.leaves.begin(), segment.leaves.end(), stacks.back().operands);
  }
  std::vector<double> grams(num_segments * GramSize(n_)), weights(num_segments * n_);
  arithmetic_.AddGrams(held_.dtype, n_, stacks, grams.data());
  SumOverRanks(transport_, grams.data(), grams.size());
  const std::vector<TreeNode> tree = MakeTree(n_);
  std::vector<int64_t> rest;
  std::vector<Stack> told;
  for (int64_t i = 0; i < num_segments; ++i) {
    const bool is_told = WeightsOfTree(reduction_, tree, n_, held_.dtype, &grams[i * GramSize(n_)],
                                       &weights[i * n_]);
    is_told ? told.push_back(stacks[i]) : rest.push_back(i);
  }
  arithmetic_.CombineStacks(held_.dtype, n_, told, weights.data());
  return rest;
}

void Reducer::GoThroughTree(const std::vector<int64_t>& chosen) {
  const int64_t num_chosen = static_cast<int64_t>(chosen.size());
  for (const std::vector<TreeNode>& level : LevelsOf(n_)) {
    std::vector<std::vector<Piece>> pieces;
    for (const TreeNode& node : level) {
      pieces.push_back(PiecesOf(node, chosen, num_chosen * static_cast<int64_t>(pieces.size())));
    }
    std::vector<Moments> moments;
    if (reduction_.NeedsMoments()) {
      moments.resize(level.size() * chosen.size());
      for (const auto& of_node : pieces) {
        arithmetic_.AddMoments(held_.dtype, of_node, moments.data());
      }
      arithmetic_.AwaitMoments();
      static_assert(sizeof(Moments) == 3 * sizeof(double), "three plain doubles");
      SumOverRanks(transport_, &moments[0].dot, 3 * moments.size());
    }
    for (size_t i = 0; i < level.size(); ++i) {
      reduction_.Combine(
          {held_.dtype, pieces[i], level[i].leaves, level[i].is_final, moments, arithmetic_});
    }
  }
}

// One for each chosen segment; their numbers begin at `first`.
std::vector<Piece> Reducer::PiecesOf(const TreeNode& node, const std::vector<int64_t>& chosen,
                                     int64_t first) const {
  std::vector<Piece> pieces;
  for (int64_t i : chosen) {
    const HeldSegment& segment = held_.segments[i];
    char* const left = segment.leaves[node.left];
    pieces.push_back({first++, left, segment.leaves[node.right], node.is_final ? segment.out : left,
                      nullptr, segment.num_elements});
  }
  return pieces;
}

}  // namespace

void ReduceHeld(const HeldLeaves& held, const Reduction& reduction, Transport& transport,
                Arithmetic& arithmetic) {
  Reducer(held, reduction, transport, arithmetic).Run();
}

}  // namespace adasum
