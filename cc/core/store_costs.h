// What stores through the caches and past them have cost, as far as is known.
#ifndef ADASUM_CORE_STORE_COSTS_H_
#define ADASUM_CORE_STORE_COSTS_H_

#include <algorithm>

namespace adasum {

// Seconds per byte of the two ways. Whatever else happens on the host only adds to a time, so that
// a shorter one is taken as it is, and of a longer one only a part.
class StoreCosts {
 public:
  bool Knows(bool is_past_caches) const { return costs_[is_past_caches] > 0; }
  bool KnowsBoth() const { return Knows(false) && Knows(true); }

  // `seconds_per_byte` is positive.
  void Note(bool is_past_caches, double seconds_per_byte) {
    double& cost = costs_[is_past_caches];
    cost = cost == 0 ? seconds_per_byte : std::min(seconds_per_byte, kMostSlower * cost);
  }

  // How many times as long it takes through the caches; both ways are known.
  double ThroughToPast() const { return costs_[false] / costs_[true]; }

 private:
  static constexpr double kMostSlower = 1.5;

  double costs_[2] = {0, 0};  // 0: not known
};

}  // namespace adasum

#endif  // ADASUM_CORE_STORE_COSTS_H_
