// Whether ranks copy from and to each other's tensors or pack them, learnt from how long it takes.
#ifndef ADASUM_ALGORITHMS_CROSS_MEMORY_POLICY_H_
#define ADASUM_ALGORITHMS_CROSS_MEMORY_POLICY_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cc/core/two_ways.h"

namespace adasum {

// The system copies without packing first, but it writes through the caches, and to lines of the
// peer's: where cores share no cache packing may be quicker, past the caches. All ranks choose
// alike, by what the slowest of them has seen.
//
// No bit of a result depends on it.
class CrossMemoryPolicy {
 public:
  // What makes allreduces alike. One of shares, in which a leaf gets its own run alone, counts as
  // one of as many bytes: its ways cost less, and compare alike.
  struct Kind {
    bool has_moments;
    int64_t num_bytes;  // at least 1; alike within a factor of two
  };

  // What this rank tells the others.
  const WaysSeen& Seen(const Kind& kind) { return Of(kind).seen(); }
  // The next way, by what all ranks that meet have told: true copies. They need not be those that
  // met before.
  bool Copies(const Kind& kind, const std::vector<WaysSeen>& told) {
    return Of(kind).Next(Slowest(told)) || always_;
  }
  void Note(const Kind& kind, bool copies, double seconds) {
    Of(kind).Note(copies, seconds / static_cast<double>(kind.num_bytes));
  }

  // From here on ranks copy wherever they can; all must be told.
  void CopyAlways() { always_ = true; }

 private:
  // A way is known once all know it.
  static WaysSeen Slowest(const std::vector<WaysSeen>& told) {
    WaysSeen slowest = told.front();
    for (const WaysSeen& seen : told) {
      slowest.num_choices = std::max(slowest.num_choices, seen.num_choices);
      for (bool way : {false, true}) {
        const bool is_known = slowest.costs[way] > 0 && seen.costs[way] > 0;
        slowest.costs[way] = is_known ? std::max(slowest.costs[way], seen.costs[way]) : 0;
      }
    }
    return slowest;
  }

  TwoWays& Of(const Kind& kind) {
    return known_[{kind.has_moments, std::ilogb(static_cast<double>(kind.num_bytes))}];
  }

  std::map<std::pair<bool, int>, TwoWays> known_;
  bool always_ = false;
};

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_CROSS_MEMORY_POLICY_H_
