// Whether results are delivered past the caches or through them, learnt from how long it takes.
#ifndef ADASUM_COLLECTIVES_STREAMING_STORE_POLICY_H_
#define ADASUM_COLLECTIVES_STREAMING_STORE_POLICY_H_

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "cc/core/two_ways.h"

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
  bool UsesStreamingStores(const Kind& kind) { return Of(kind).Next(); }

  // How long this rank worked in that collective, without its waits for other ranks, in which their
  // choices would show.
  void Note(const Kind& kind, bool uses_streaming_stores, double seconds) {
    Of(kind).Note(uses_streaming_stores, seconds / static_cast<double>(kind.num_bytes));
  }

 private:
  TwoWays& Of(const Kind& kind) {
    const int size = std::ilogb(static_cast<double>(kind.num_bytes));
    return known_[{kind.reduction, kind.is_in_place, kind.is_in_reach, size}];
  }

  std::map<std::tuple<std::string, bool, bool, int>, TwoWays> known_;
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_STREAMING_STORE_POLICY_H_
