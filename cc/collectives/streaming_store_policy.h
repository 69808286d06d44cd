// Whether results are delivered past the caches or through them, learnt from how long it takes.
#ifndef ADASUM_COLLECTIVES_STREAMING_STORE_POLICY_H_
#define ADASUM_COLLECTIVES_STREAMING_STORE_POLICY_H_

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "cc/core/store_costs.h"

namespace adasum {

// Past the caches nothing is read only to be overwritten, and no line is taken from the core that
// has it, which takes long where the two share no cache: a peer's output is such a line if it was
// not an input too, which is read just before. On virtual machines cores are moved, so that no look
// at the hardware tells. Each rank chooses for itself: results are the same either way.
class StreamingStorePolicy {
 public:
  // What makes collectives alike.
  struct Kind {
    std::string reduction;
    bool is_in_place;
    int64_t num_bytes;         // at least 1; alike within a factor of two
    bool is_in_reach = false;  // the tensors lie where peers reach them (Transport::Locate)
  };

  // For the next collective of this kind.
  bool UsesStreamingStores(const Kind& kind) {
    Known& known = Of(kind);
    ++known.num_asked;
    if (known.num_asked <= kFirst) return known.num_asked % 2 == 0;
    if (!known.costs.KnowsBoth()) return !known.costs.Knows(true);
    const double ratio = known.costs.ThroughToPast();
    const bool is_better = ratio > 1;
    const double loss = is_better ? ratio : 1 / ratio;
    return known.num_asked % TryEvery(loss) == 0 ? !is_better : is_better;
  }

  // How long this rank worked in that collective, without its waits for other ranks, in which their
  // choices would show.
  void Note(const Kind& kind, bool uses_streaming_stores, double seconds) {
    Known& known = Of(kind);
    if (known.num_asked <= kFirst) return;
    known.costs.Note(uses_streaming_stores, seconds / static_cast<double>(kind.num_bytes));
  }

 private:
  // These also make memory that the later ones find, and say nothing.
  static constexpr int64_t kFirst = 2;
  // The more the other way loses, the rarer it is tried. Odd numbers, since training repeats its
  // collectives in a short cycle, and multiples: ranks that know other times try together, too.
  static int64_t TryEvery(double loss) { return loss < 1.2 ? 13 : loss < 1.6 ? 13 * 5 : 13 * 15; }

  struct Known {
    int64_t num_asked = 0;
    StoreCosts costs;
  };

  Known& Of(const Kind& kind) {
    int size = std::ilogb(static_cast<double>(kind.num_bytes));
    return known_[{kind.reduction, kind.is_in_place, kind.is_in_reach, size}];
  }

  std::map<std::tuple<std::string, bool, bool, int>, Known> known_;
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_STREAMING_STORE_POLICY_H_
