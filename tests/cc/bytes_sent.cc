#include "tests/cc/bytes_sent.h"

#include "cc/algorithms/schedule.h"

namespace adasum {
namespace test {

int64_t BytesSent(int rank, int size, int64_t num_elements, int64_t element_bytes,
                  int64_t num_moments, Algorithm algorithm) {
  constexpr int64_t kMomentBytes = 3 * sizeof(double);
  const Schedule schedule = MakeSchedule(rank, size, num_elements);
  const int64_t num_levels = static_cast<int64_t>(schedule.levels.size());
  if (algorithm == Algorithm::kDirect || algorithm == Algorithm::kNetworkDirect) {
    const int64_t own = PartOf(rank, size, num_elements).size();
    const int64_t gram_bytes = int64_t{size} * (size + 1) / 2 * sizeof(double);
    return (num_elements - own + (size - 1) * own) * element_bytes +
           (size - 1) * num_moments * gram_bytes;
  }
  int64_t elements = schedule.fold == Fold::kNone ? 0 : num_elements;
  if (algorithm == Algorithm::kRecursiveDoubling)
    return (elements + num_levels * num_elements) * element_bytes;
  for (const Level& level : schedule.levels) elements += level.give.size() + level.keep.size();
  // Level k sums moments in k rounds.
  return elements * element_bytes + num_levels * (num_levels + 1) / 2 * num_moments * kMomentBytes;
}

}  // namespace test
}  // namespace adasum
