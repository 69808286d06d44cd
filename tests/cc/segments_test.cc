// Segments against a list that names the variable of every element.

#include "cc/core/segments.h"

#include <random>
#include <vector>

#include "tests/cc/check.h"

namespace adasum {
namespace {

using test::Scope;

// owner[i] is the segment of element i.
std::vector<int64_t> Owners(const std::vector<int64_t>& counts) {
  std::vector<int64_t> owner;
  for (size_t segment = 0; segment < counts.size(); ++segment) {
    owner.insert(owner.end(), counts[segment], segment);
  }
  return owner;
}

void CheckRange(const Segments& segments, const std::vector<int64_t>& owner, Range range) {
  int64_t reached = range.begin, last_segment = -1;
  segments.ForEach(range, [&](int64_t segment, Range part) {
    CHECK_TRUE(segment > last_segment);
    CHECK_EQ(part.begin, reached);
    CHECK_TRUE(part.size() > 0);
    for (int64_t i = part.begin; i < part.end; ++i) CHECK_EQ(owner[i], segment);
    last_segment = segment;
    reached = part.end;
  });
  CHECK_EQ(reached, std::max(range.begin, range.end));
}

void CheckAll(const std::vector<int64_t>& counts) {
  const Segments segments(counts);
  const std::vector<int64_t> owner = Owners(counts);
  const int64_t total = static_cast<int64_t>(owner.size());
  CHECK_EQ(segments.size(), static_cast<int64_t>(counts.size()));
  CHECK_EQ(segments.num_elements(), total);
  CHECK_EQ(segments.all().size(), total);
  for (int64_t begin = 0; begin <= total; ++begin) {
    for (int64_t end = begin; end <= total; ++end) CheckRange(segments, owner, {begin, end});
  }
}

TEST(EveryRangeOfSmallLists) {
  CheckAll({});
  CheckAll({0});
  CheckAll({0, 0, 0});
  CheckAll({1});
  CheckAll({5, 0, 0, 3, 0});
  CheckAll({0, 1, 1, 0, 1, 7});
}

TEST(EveryRangeOfRandomLists) {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    Scope scope("round " + std::to_string(round));
    std::vector<int64_t> counts(random() % 9);
    for (int64_t& count : counts) count = random() % 3 == 0 ? 0 : random() % 12;
    CheckAll(counts);
  }
}

TEST(OffsetsBeyondTwoGibi) {
  const int64_t large = int64_t{3} << 31;
  const Segments segments({large, 1, large});
  CHECK_EQ(segments.num_elements(), 2 * large + 1);
  std::vector<int64_t> found;
  segments.ForEach({large - 1, large + 2}, [&](int64_t segment, Range part) {
    found.push_back(segment);
    CHECK_EQ(part.size(), int64_t{1});
  });
  CHECK_EQ(found.size(), size_t{3});
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
