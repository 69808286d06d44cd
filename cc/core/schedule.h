// Who talks to whom, about which elements: vector halving and distance doubling over the tree
// that defines Adasum for N ranks. Pure integers; no data is touched here.
//
// p is the largest power of two <= N. Ranks >= p fold away first: rank r gives its vector to
// r - p and receives the result last. Then, for distance d = 1, 2, 4, ... < p, rank r and r ^ d
// split the range they share; the rank without bit d keeps the lower half. After the last level
// every rank holds 1/p of the result, and the all-gather retraces the levels, or each rank fetches
// what it misses from all others. Short vectors are not split: partners swap them whole.
#ifndef ADASUM_CORE_SCHEDULE_H_
#define ADASUM_CORE_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "cc/core/segments.h"

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

// How many leaves two subtrees contain.
struct LeafCounts {
  int left;
  int right;
};

// Those that meet at a level of this distance: `distance` neighbours each, and what folded into
// them. Distance 0 is the meeting with a folded leaf.
LeafCounts CountLeaves(int rank, int size, int distance);

// How the vectors travel.
enum class Way {
  kHalves,  // down the tree and back: 2 (p - 1) / p of the bytes
  kShared,  // down as halves, then all fetch from all: as many bytes, and each passed on once
  kWhole,   // log2(p) times the bytes in the fewest messages, and no moments
};

// Bytes that `rank` sends in a whole allreduce with moments (24 bytes per segment and round of
// the group sums; none for a plain sum). kShared is for sizes that are a power of two.
int64_t BytesSent(int rank, int size, int64_t num_elements, int64_t element_bytes,
                  int64_t moment_bytes, Way way);

}  // namespace adasum

#endif  // ADASUM_CORE_SCHEDULE_H_
