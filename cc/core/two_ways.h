// Which of two ways to do a thing is quicker, learnt from how long they take.
#ifndef ADASUM_CORE_TWO_WAYS_H_
#define ADASUM_CORE_TWO_WAYS_H_

#include <algorithm>
#include <array>
#include <cstdint>

namespace adasum {

// Seconds per byte of the ways false and true; 0: not known.
using WayCosts = std::array<double, 2>;

inline bool KnowsBoth(const WayCosts& costs) { return costs[false] > 0 && costs[true] > 0; }

// Whatever else happens on the host only adds to a time, so that a shorter one is taken as it is,
// and of a longer one only a part. `seconds_per_byte` is positive.
inline void NoteCost(bool way, double seconds_per_byte, WayCosts* costs) {
  constexpr double kMostSlower = 1.5;
  double& cost = (*costs)[way];
  cost = cost == 0 ? seconds_per_byte : std::min(seconds_per_byte, kMostSlower * cost);
}

// All that a choice follows from.
struct WaysSeen {
  int64_t num_choices = 0;
  WayCosts costs = {0, 0};
};

// Takes the quicker way, and now and then the other one: what is quicker may change.
class TwoWays {
 public:
  // The next way to take, by what this rank has seen.
  bool Next() { return Next(seen_); }
  // By what ranks that choose alike have seen together; they may have met others before.
  bool Next(const WaysSeen& together) {
    const int64_t number = together.num_choices + 1;
    seen_.num_choices = number;
    if (number <= kFirst) return number % 2 == 0;
    if (!KnowsBoth(together.costs)) return together.costs[true] == 0;
    const double ratio = together.costs[false] / together.costs[true];
    const bool is_better = ratio > 1;
    const double loss = is_better ? ratio : 1 / ratio;
    return number % TryEvery(loss) == 0 ? !is_better : is_better;
  }

  // What the way that Next last returned has taken.
  void Note(bool way, double seconds_per_byte) {
    if (seen_.num_choices > kFirst) NoteCost(way, seconds_per_byte, &seen_.costs);
  }

  const WaysSeen& seen() const { return seen_; }

 private:
  // These also make memory that the later ones find, and say nothing.
  static constexpr int64_t kFirst = 2;
  // The more the other way loses, the rarer it is tried. Odd numbers, since training repeats its
  // collectives in a short cycle, and multiples: ranks that know other times try together, too.
  static int64_t TryEvery(double loss) { return loss < 1.2 ? 13 : loss < 1.6 ? 13 * 5 : 13 * 15; }

  WaysSeen seen_;
};

}  // namespace adasum

#endif  // ADASUM_CORE_TWO_WAYS_H_
