// The exchange of two ranges, part by part.
#ifndef ADASUM_ALGORITHMS_STEPS_H_
#define ADASUM_ALGORITHMS_STEPS_H_

#include <algorithm>

#include "cc/core/segments.h"

namespace adasum {

// As many on both sides, though one range may be longer. A step is what a core still has in its
// cache when it comes to the next thing to do with it, where ranks read each other's memory; over
// a network it is as long as a message may be.
class Steps {
 public:
  // `step` in elements, at least 1. At least as many steps as `longest` elements take.
  Steps(Range keep, Range give, int64_t step, int64_t longest = 0)
      : keep_(keep),
        give_(give),
        step_(step),
        size_((std::max({keep.size(), give.size(), longest}) + step - 1) / step) {}

  int64_t size() const { return size_; }
  Range keep(int64_t i) const { return Of(keep_, i); }
  Range give(int64_t i) const { return Of(give_, i); }
  // Step i of any other range.
  Range Of(Range range, int64_t i) const {
    return {std::min(range.begin + i * step_, range.end),
            std::min(range.begin + (i + 1) * step_, range.end)};
  }

 private:
  Range keep_, give_;
  int64_t step_;
  int64_t size_;
};

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_STEPS_H_
