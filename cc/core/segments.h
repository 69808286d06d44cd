// Where the variables lie in a packed buffer: variable v occupies elements
// [offset(v), offset(v + 1)). Reductions that look at whole variables, as Adasum does, need the
// boundaries; the exchange does not.
#ifndef ADASUM_CORE_SEGMENTS_H_
#define ADASUM_CORE_SEGMENTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace adasum {

// Elements [begin, end) of a packed buffer.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

class Segments {
 public:
  explicit Segments(const std::vector<int64_t>& num_elements) : offsets_(1, 0) {
    offsets_.reserve(num_elements.size() + 1);
    for (int64_t count : num_elements) offsets_.push_back(offsets_.back() + count);
  }

  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int64_t num_elements() const { return offsets_.back(); }
  int64_t offset(int64_t segment) const { return offsets_[segment]; }
  Range all() const { return {0, num_elements()}; }
  // Of the segments in `run`.
  Range Elements(Range run) const { return {offset(run.begin), offset(run.end)}; }

  // Calls visit(segment, part) for every segment that has elements in `range`, in order; `part`
  // is the common part, in elements of the packed buffer.
  template <typename Visit>
  void ForEach(Range range, Visit visit) const {
    if (range.size() <= 0) return;
    auto after = std::upper_bound(offsets_.begin(), offsets_.end(), range.begin);
    for (int64_t segment = after - offsets_.begin() - 1; segment < size(); ++segment) {
      if (offsets_[segment] >= range.end) return;
      Range part{std::max(range.begin, offsets_[segment]),
                 std::min(range.end, offsets_[segment + 1])};
      if (part.size() > 0) visit(segment, part);
    }
  }

 private:
  std::vector<int64_t> offsets_;
};

}  // namespace adasum

#endif  // ADASUM_CORE_SEGMENTS_H_
