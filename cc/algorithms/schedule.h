// Who talks to whom, about which elements: vector halving and distance doubling over the tree
// that defines Adasum for N ranks. Pure integers; no data is touched here.
//
// p is the largest power of two <= N. Ranks >= p fold away first: rank r gives its vector to
// r - p and receives the result last. Then, for distance d = 1, 2, 4, ... < p, rank r and r ^ d
// split the range they share; the rank without bit d keeps the lower half. After the last level
// every rank holds 1/p of the result, and the all-gather retraces the levels. In a direct allreduce
// each rank combines 1/N of the vector for all. Recursive doubling exchanges whole vectors.
#ifndef ADASUM_ALGORITHMS_SCHEDULE_H_
#define ADASUM_ALGORITHMS_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "cc/core/segments.h"
#include "cc/reductions/reduction.h"

namespace adasum {

struct Level {
  int distance;
  int peer;
  // The part this rank keeps combining, and the part it gives to the peer.
  Range keep;
  Range give;
  // Whether this rank's vector stands left of the peer's in the tree.
  bool is_left;
};

enum class Fold {
  kNone,
  kGives,  // rank >= p: folds away into fold_peer
  kTakes,  // rank < p: fold_peer folds into this rank
};

struct Schedule {
  Fold fold = Fold::kNone;
  int fold_peer = -1;
  std::vector<Level> levels;  // empty for a rank that folds away
};

// Args: rank in [0, size), size >= 1, num_elements >= 0 of the packed buffer.
Schedule MakeSchedule(int rank, int size, int64_t num_elements);

// The leaves of the two subtrees that are combined at a level of this distance: `distance`
// neighbours each, and what folded into them. Distance 0 is that of a folded leaf.
LeafCounts CountLeaves(int rank, int size, int distance);

// Two vectors are combined; the result replaces the left one.
struct TreeNode {
  int left;  // leaves, the first of what has met before
  int right;
  LeafCounts leaves;
  bool is_final;  // nothing meets after it
};

// The whole tree, every node after those whose results meet in it; none for a single leaf.
std::vector<TreeNode> MakeTree(int size);

// What `rank` combines in a direct allreduce.
Range PartOf(int rank, int size, int64_t num_elements);

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_SCHEDULE_H_
