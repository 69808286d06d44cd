// Whether what a peer reads next is written through the caches or past them, learnt from how long
// this core's stores take.
#ifndef ADASUM_ALGORITHMS_PEER_STORES_H_
#define ADASUM_ALGORITHMS_PEER_STORES_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "cc/core/two_ways.h"

namespace adasum {

// A line of a slot was read by the peer the last time, and is in its cache. Where the two cores
// share a cache it is taken back in some ten nanoseconds, and the peer finds the new values in that
// cache. Where they share none, each line costs a way to the other cache: on one machine 0.6 ns a
// byte, and 0.04 past the caches (docs/performance.md, "Cores far apart"). On virtual machines
// cores are moved every few seconds, so that every write is timed, and now and then one of the
// other way.
//
// One thread at a time. No bit of a result depends on it.
class PeerStores {
 public:
  // Seconds since any moment.
  using Clock = double (*)();
  // What takes so many times as long through the caches as past them goes past them. With a common
  // cache it takes 0.5 to 2 times as long, with none 7 to 16 times.
  static constexpr double kFar = 3;

  explicit PeerStores(double far = kFar, Clock now = SteadySeconds) : far_(far), now_(now) {}

  // Calls write(begin, num_bytes, is_past_caches) for the parts of `num_bytes` that `peer` reads
  // next; parts begin at multiples of kProbeBytes.
  template <typename Write>
  void ForPeer(int peer, int64_t num_bytes, Write write) {
    if (num_bytes < kLeastTimed) {
      if (num_bytes > 0) write(int64_t{0}, num_bytes, false);
      return;
    }
    Known& known = Of(peer);
    const bool is_past = known.is_past_caches;
    const bool is_trial = ++known.num_writes % kTryEvery == 0 || known.costs[!is_past] == 0;
    // Little is lost by a write past the caches where that is not the best, much by the reverse.
    const int64_t tried = !is_trial ? 0 : is_past ? std::min(kProbeBytes, num_bytes) : num_bytes;
    if (tried > 0) Time(known, !is_past, 0, tried, write);
    if (tried < num_bytes) Time(known, is_past, tried, num_bytes - tried, write);
    known.is_past_caches = KnowsBoth(known.costs) && known.costs[false] > far_ * known.costs[true];
  }

  // For what all peers read.
  bool IsPastCachesForAny() const {
    return std::any_of(peers_.begin(), peers_.end(),
                       [](const Known& known) { return known.is_past_caches; });
  }

  static constexpr int64_t kProbeBytes = int64_t{8} << 10;
  static constexpr int64_t kLeastTimed = int64_t{2} << 10;

 private:
  static constexpr int64_t kTryEvery = 16;

  struct Known {
    bool is_past_caches = false;
    int64_t num_writes = 0;
    WayCosts costs = {0, 0};  // through the caches, and past them
  };

  template <typename Write>
  void Time(Known& known, bool is_past_caches, int64_t begin, int64_t num_bytes, Write write) {
    const double start = now_();
    write(begin, num_bytes, is_past_caches);
    NoteCost(is_past_caches, (now_() - start) / static_cast<double>(num_bytes), &known.costs);
  }

  static double SteadySeconds() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
  }

  Known& Of(int peer) {
    if (peer >= static_cast<int>(peers_.size())) peers_.resize(peer + 1);
    return peers_[peer];
  }

  double far_;
  Clock now_;
  std::vector<Known> peers_;
};

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_PEER_STORES_H_
