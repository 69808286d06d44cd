// The pages of an arena: thousands of random calls beside a plain list of what is taken.

#include "cc/arena/page_runs.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "tests/cc/check.h"

namespace adasum {
namespace {

using test::Scope;

constexpr uint32_t kNone = PageRuns::kNone;

// With a table of its own.
struct Runs : PageRuns {
  explicit Runs(uint32_t num_pages) : table(PageRuns::TableBytes(num_pages) / 8) {
    Start(table.data(), num_pages);
  }
  uint32_t TakeAny(uint32_t num_pages) {
    bool was_kept = false;
    return Take(num_pages, 1, &was_kept);
  }
  std::vector<uint64_t> table;
};

TEST(AllPagesButTheFirstAndTheLastCanBeTaken) {
  Runs runs(100);
  CHECK_EQ(static_cast<int64_t>(runs.TakeAny(99)), int64_t{kNone});
  CHECK_EQ(static_cast<int64_t>(runs.TakeAny(0)), int64_t{kNone});
  CHECK_EQ(static_cast<int64_t>(runs.TakeAny(98)), int64_t{1});
  CHECK_EQ(static_cast<int64_t>(runs.TakeAny(1)), int64_t{kNone});
  CHECK_TRUE(runs.IsSound());
}

TEST(WhatIsFreedJoinsItsNeighboursInAnyOrder) {
  std::vector<int> order{0, 1, 2, 3, 4};
  do {
    Runs runs(102);
    uint32_t firsts[5];
    for (uint32_t& first : firsts) first = runs.TakeAny(20);
    for (int i : order) runs.Keep(firsts[i]);
    CHECK_TRUE(runs.IsSound());
    CHECK_EQ(static_cast<int64_t>(runs.TakeAny(100)), int64_t{1});
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(KeptAndEmptyRunsDoNotJoin) {
  Runs runs(102);
  const uint32_t left = runs.TakeAny(50), right = runs.TakeAny(50);
  runs.Keep(left);
  runs.Empty(right);
  CHECK_TRUE(runs.IsSound());
  CHECK_EQ(static_cast<int64_t>(runs.TakeAny(51)), int64_t{kNone});
  CHECK_EQ(static_cast<int64_t>(runs.TakeOldest(100)), int64_t{left});
  runs.Empty(left);
  CHECK_EQ(static_cast<int64_t>(runs.TakeAny(100)), int64_t{1});
}

TEST(KeptPagesComeFirstAndTheOldestGo) {
  Runs runs(1000);
  uint32_t firsts[6];
  for (uint32_t& first : firsts) first = runs.TakeAny(20);
  for (int i : {4, 0, 2}) runs.Keep(firsts[i]);
  bool was_kept = false;
  const uint32_t taken = runs.Take(20, 1, &was_kept);
  CHECK_TRUE(was_kept);
  runs.Keep(taken);
  CHECK_TRUE(runs.Take(21, 1, &was_kept) != kNone && !was_kept);
  // The run that was taken and kept again is now the newest.
  std::vector<uint32_t> expected{firsts[4], firsts[0], firsts[2]};
  expected.erase(std::find(expected.begin(), expected.end(), taken));
  expected.push_back(taken);
  for (uint32_t first : expected) {
    // Two pieces of the oldest, then the next one.
    CHECK_EQ(static_cast<int64_t>(runs.TakeOldest(15)), int64_t{first} + 5);
    CHECK_EQ(static_cast<int64_t>(runs.TakeOldest(15)), int64_t{first});
  }
  CHECK_EQ(static_cast<int64_t>(runs.TakeOldest(15)), int64_t{kNone});
}

// What is taken must be nobody else's.
class Model {
 public:
  explicit Model(uint32_t num_pages) : is_taken_(num_pages) {
    is_taken_.front() = is_taken_.back() = true;
  }
  void Take(uint32_t first, uint32_t num_pages) {
    for (uint32_t page = first; page < first + num_pages; ++page) {
      CHECK_TRUE(!is_taken_[page]);
      is_taken_[page] = true;
    }
    blocks_.push_back(first);
  }
  template <typename Random>
  uint32_t Remove(Random& random, const PageRuns& runs) {
    std::swap(blocks_[random() % blocks_.size()], blocks_.back());
    const uint32_t first = blocks_.back();
    blocks_.pop_back();
    CHECK_TRUE(runs.IsTaken(first));
    std::fill_n(is_taken_.begin() + first, runs.NumPages(first), false);
    return first;
  }
  bool empty() const { return blocks_.empty(); }

 private:
  std::vector<bool> is_taken_;
  std::vector<uint32_t> blocks_;
};

TEST(RandomCallsShareNoPage) {
  constexpr uint32_t kPages = 4096;
  for (unsigned seed = 0; seed < 20; ++seed) {
    Scope scope("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Runs runs(kPages);
    Model model(kPages);
    for (int call = 0; call < 2000; ++call) {
      const uint32_t kind = random() % 10;
      if (kind < 5) {
        const uint32_t num_pages = 1 + random() % (random() % 4 == 0 ? 800 : 20);
        const uint32_t alignment = 1u << (random() % 6);
        bool was_kept = false;
        const uint32_t first = runs.Take(num_pages, alignment, &was_kept);
        if (first == kNone) continue;
        CHECK_EQ(static_cast<int>(first % alignment), 0);
        CHECK_EQ(static_cast<int64_t>(runs.NumPages(first)), int64_t{num_pages});
        model.Take(first, num_pages);
      } else if (kind < 9) {
        if (model.empty()) continue;
        const uint32_t first = model.Remove(random, runs);
        kind < 8 ? runs.Keep(first) : runs.Empty(first);
      } else {
        const uint32_t first = runs.TakeOldest(1 + random() % 100);
        if (first != kNone) runs.Empty(first);
      }
      if (call % 50 == 0) CHECK_TRUE(runs.IsSound());
    }
    while (!model.empty()) runs.Empty(model.Remove(random, runs));
    for (uint32_t first = 0; first != kNone;) {
      first = runs.TakeOldest(kPages);
      if (first != kNone) runs.Empty(first);
    }
    CHECK_TRUE(runs.IsSound());
    CHECK_EQ(static_cast<int64_t>(runs.TakeAny(kPages - 2)), int64_t{1});
  }
}

TEST(OnlyTheFirstPageOfATakenRunIsTaken) {
  Runs runs(1000);
  const uint32_t joined = runs.TakeAny(10), behind = runs.TakeAny(10), last = runs.TakeAny(10);
  runs.Keep(behind);
  runs.Keep(joined);
  for (uint32_t page : {0u, joined, behind, behind + 1, last + 1, 999u}) {
    CHECK_TRUE(!runs.IsTaken(page));
  }
  CHECK_TRUE(runs.IsTaken(last));
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
