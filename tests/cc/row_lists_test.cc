// Rows told apart by indices: sorted, dealt by range and joined, at the edges of all three.

#include "cc/collectives/row_lists.h"

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cc/arithmetic/cpu_arithmetic.h"
#include "tests/cc/check.h"

namespace adasum {
namespace {

using test::Scope;

using Indices = std::vector<int64_t>;

std::string Text(const Indices& indices) {
  std::string text;
  for (int64_t index : indices) text += std::to_string(index) + " ";
  return text;
}

#define CHECK_INDICES(got, ...) CHECK_EQ(Text(got), Text(Indices __VA_ARGS__))

// The sums of the rows of each index, the indices ascending.
std::vector<float> SummedRows(const Indices& indices, const std::vector<float>& values,
                              int64_t row_elements) {
  const RowList list(indices.data(), static_cast<int64_t>(indices.size()));
  const int64_t count = static_cast<int64_t>(list.indices().size());
  std::vector<float> sums(count * row_elements);
  CpuArithmetic arithmetic;
  // In two parts, as two ranks get them.
  for (const Range& range : {Range{0, count / 2}, Range{count / 2, count}}) {
    char* out = reinterpret_cast<char*>(sums.data() + range.begin * row_elements);
    list.SumRows(range, values.data(), row_elements, DType::kFloat32, arithmetic, out);
  }
  arithmetic.Finish();
  return sums;
}

TEST(IndicesAreAscendingAndOnce) {
  const Indices several{7, 2, 7, 0, 2, 7};
  CHECK_INDICES(RowList(several.data(), 6).indices(), {0, 2, 7});
  const Indices ascending{0, 2, 7};
  CHECK_INDICES(RowList(ascending.data(), 3).indices(), {0, 2, 7});
  const Indices equal{5, 5, 5};
  CHECK_INDICES(RowList(equal.data(), 3).indices(), {5});
  CHECK_INDICES(RowList(nullptr, 0).indices(), {});
  const int64_t largest = std::numeric_limits<int64_t>::max() - 1;
  const Indices far{largest, 0};
  CHECK_INDICES(RowList(far.data(), 2).indices(), {0, largest});
}

TEST(RowsOfOneIndexAreSummedInTheOrderInWhichTheyCome) {
  // Rounding tells the order: (1e8 + 1) - 1e8 is 0 in float32, (1e8 - 1e8) + 1 is 1.
  const std::vector<float> values{1e8f, 2, 1, 4, -1e8f, 8, 16, 32};
  const std::vector<float> sums = SummedRows({9, 9, 9, 3}, values, 2);
  CHECK_EQ(static_cast<int64_t>(sums.size()), int64_t{4});
  CHECK_EQ(sums[0], 16.0);
  CHECK_EQ(sums[1], 32.0);
  CHECK_EQ(sums[2], 0.0);
  CHECK_EQ(sums[3], 14.0);
  CHECK_EQ(static_cast<int64_t>(SummedRows({}, {}, 2).size()), int64_t{0});
}

TEST(RandomRowsAreThoseOfTheDenseTensor) {
  std::mt19937 random(4);
  for (int64_t count : {1, 2, 17, 300}) {
    Scope scope("rows " + std::to_string(count));
    constexpr int64_t kRows = 40, kColumns = 3;
    Indices indices(count);
    std::vector<float> values(count * kColumns), dense(kRows * kColumns);
    for (int64_t i = 0; i < count; ++i) {
      indices[i] = static_cast<int64_t>(random() % kRows);
      for (int64_t c = 0; c < kColumns; ++c) {
        values[i * kColumns + c] = static_cast<float>(random() % 100);  // exact sums
        dense[indices[i] * kColumns + c] += values[i * kColumns + c];
      }
    }
    const std::vector<float> sums = SummedRows(indices, values, kColumns);
    const RowList list(indices.data(), count);
    for (size_t i = 0; i < list.indices().size(); ++i) {
      for (int64_t c = 0; c < kColumns; ++c) {
        CHECK_EQ(sums[i * kColumns + c], dense[list.indices()[i] * kColumns + c]);
      }
    }
  }
}

TEST(SamplesAreAnEvenPart) {
  Indices indices(1000);
  for (int64_t i = 0; i < 1000; ++i) indices[i] = 3 * i;
  const Indices first = SampleIndices(indices, 0, 2), second = SampleIndices(indices, 1, 2);
  CHECK_EQ(static_cast<int64_t>(first.size()), kMostSamples);
  CHECK_EQ(static_cast<int64_t>(second.size()), kMostSamples);
  for (int64_t i = 0; i < kMostSamples; ++i) CHECK_TRUE(first[i] < second[i]);
  const Indices few{4, 8};
  CHECK_INDICES(SampleIndices(few, 0, 1), {4, 8});
  CHECK_INDICES(SampleIndices({}, 0, 3), {});
}

TEST(BordersAscendFromZeroToTheEnd) {
  CHECK_INDICES(BordersOf({}, 3, 50), {0, 50, 50, 50});
  CHECK_INDICES(BordersOf({{6, 1}}, 1, 50), {0, 50});
  // All in one row: one rank has it, the others none.
  CHECK_INDICES(BordersOf({{6, 1}, {6, 1}, {6, 1}, {6, 1}}, 2, 50), {0, 6, 50});
  CHECK_INDICES(BordersOf({{0, 1}, {1, 1}, {2, 1}, {3, 1}}, 2, 4), {0, 2, 4});
  CHECK_INDICES(BordersOf({{0, 3}, {1, 1}, {2, 1}, {3, 1}}, 2, 4), {0, 1, 4});
}

TEST(EveryIndexIsDealtToOneRankAndSharesAreEven) {
  std::mt19937 random(5);
  for (int size = 1; size <= 5; ++size) {
    Scope scope("ranks " + std::to_string(size));
    constexpr int64_t kEnd = 100000;
    std::vector<Indices> lists(size);
    std::vector<IndexSample> samples;
    int64_t total = 0;
    for (int leaf = 0; leaf < size; ++leaf) {
      // As words are: many small indices, few large ones; and of unlike numbers.
      for (int64_t i = 0; i < 2000 * (leaf + 1); ++i) {
        const double draw = static_cast<double>(random() % 10000) / 10000;
        lists[leaf].push_back(static_cast<int64_t>(kEnd * draw * draw * draw));
      }
      lists[leaf] = RowList(lists[leaf].data(), static_cast<int64_t>(lists[leaf].size())).indices();
      const int64_t count = static_cast<int64_t>(lists[leaf].size());
      total += count;
      for (int64_t index : SampleIndices(lists[leaf], leaf, size)) {
        samples.push_back({index, static_cast<double>(count) / static_cast<double>(kMostSamples)});
      }
    }
    const Indices borders = BordersOf(samples, size, kEnd);
    CHECK_TRUE(std::is_sorted(borders.begin(), borders.end()));
    int64_t dealt = 0;
    for (int rank = 0; rank < size; ++rank) {
      int64_t share = 0;
      for (const Indices& list : lists) {
        share += Within(list, borders[rank], borders[rank + 1]).size();
      }
      dealt += share;
      const double even = static_cast<double>(total) / size;
      CHECK_AT_MOST(static_cast<double>(share), even + static_cast<double>(total) / kMostSamples);
    }
    CHECK_EQ(dealt, total);
  }
}

TEST(RangesIncludeTheirBeginAndNotTheirEnd) {
  const Indices list{2, 4, 6};
  CHECK_EQ(Within(list, 2, 6).begin, int64_t{0});
  CHECK_EQ(Within(list, 2, 6).end, int64_t{2});
  CHECK_EQ(Within(list, 3, 4).size(), int64_t{0});
  CHECK_EQ(Within(list, 6, 7).begin, int64_t{2});
  CHECK_EQ(Within(list, 9, 9).size(), int64_t{0});
  CHECK_EQ(Within({}, 0, 9).size(), int64_t{0});
}

TEST(ListsAreJoinedAndSpread) {
  Indices all;
  const Indices first{1, 5}, second{0, 5, 9};
  Join(first.data(), 2, &all);
  Join(second.data(), 3, &all);
  Join(nullptr, 0, &all);
  CHECK_INDICES(all, {0, 1, 5, 9});
  const std::vector<int32_t> values{10, 11, 50, 51};
  std::vector<int32_t> spread(8, -1);
  SpreadRows(first.data(), 2, reinterpret_cast<const char*>(values.data()), 8, all,
             reinterpret_cast<char*>(spread.data()));
  const std::vector<int32_t> wanted{0, 0, 10, 11, 50, 51, 0, 0};
  for (size_t i = 0; i < wanted.size(); ++i) CHECK_EQ(spread[i], wanted[i]);
  SpreadRows(nullptr, 0, nullptr, 8, all, reinterpret_cast<char*>(spread.data()));
  for (int32_t value : spread) CHECK_EQ(value, 0);
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
