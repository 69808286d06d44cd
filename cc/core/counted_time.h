// Time that counts against the limit of a wait: that in which this process could look at its peers.
#ifndef ADASUM_CORE_COUNTED_TIME_H_
#define ADASUM_CORE_COUNTED_TIME_H_

#include <algorithm>
#include <chrono>

namespace adasum {

// A process that was stopped, as those of a suspended job or a frozen container are, finds by the
// clock that its peers have said nothing for as long, before they could. So between two looks no
// more counts than kMost, which the looks of a process that runs are far below.
class CountedTime {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::duration kMost = std::chrono::seconds(1);

  explicit CountedTime(Clock::time_point begin) : last_(begin) {}

  // Returns what counts since the beginning.
  Clock::duration At(Clock::time_point now) {
    counted_ += std::min(now - last_, kMost);
    last_ = now;
    return counted_;
  }

 private:
  Clock::duration counted_{};
  Clock::time_point last_;
};

inline double Seconds(CountedTime::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace adasum

#endif  // ADASUM_CORE_COUNTED_TIME_H_
