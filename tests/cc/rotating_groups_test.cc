// Who meets whom in the rounds of groups.

#include "cc/collectives/rotating_groups.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/cc/check.h"

namespace adasum {
namespace {

using test::Scope;

// Every rank is in one group, and all members see the same one.
TEST(GroupsPartTheRanks) {
  for (int size = 1; size <= 33; ++size) {
    for (int group_size : {2, 4, 8}) {
      for (int64_t round = 0; round < 3 * size; ++round) {
        for (int rank = 0; rank < size; ++rank) {
          const std::vector<int> group = RotatingGroup(rank, size, group_size, round);
          CHECK_TRUE(std::is_sorted(group.begin(), group.end()));
          CHECK_TRUE(static_cast<int>(group.size()) <= group_size);
          CHECK_EQ(std::count(group.begin(), group.end(), rank), 1);
          for (int member : group) {
            CHECK_TRUE(RotatingGroup(member, size, group_size, round) == group);
          }
        }
      }
    }
  }
}

// After how many rounds what each rank knew has come to all.
int64_t RoundsToReachAll(int size, int group_size, int64_t first) {
  std::vector<std::vector<bool>> knows(size, std::vector<bool>(size));
  for (int rank = 0; rank < size; ++rank) knows[rank][rank] = true;
  for (int64_t round = first;; ++round) {
    const bool is_done = std::all_of(knows.begin(), knows.end(), [](const auto& of_rank) {
      return std::count(of_rank.begin(), of_rank.end(), false) == 0;
    });
    if (is_done || round - first > 100) return round - first;
    const auto before = knows;
    for (int rank = 0; rank < size; ++rank) {
      for (int member : RotatingGroup(rank, size, group_size, round)) {
        for (int i = 0; i < size; ++i) knows[rank][i] = knows[rank][i] || before[member][i];
      }
    }
  }
}

TEST(WhatOneKnowsReachesAll) {
  // A butterfly takes log2(size) / log2(group_size) rounds, rounded up.
  CHECK_EQ(RoundsToReachAll(8, 2, 0), int64_t{3});
  CHECK_EQ(RoundsToReachAll(8, 4, 0), int64_t{2});
  CHECK_EQ(RoundsToReachAll(16, 4, 1), int64_t{2});
  CHECK_EQ(RoundsToReachAll(32, 4, 5), int64_t{3});
  for (int size = 2; size <= 33; ++size) {
    for (int group_size : {2, 4}) {
      for (int64_t first = 0; first < 5; ++first) {
        Scope scope(std::to_string(size) + " ranks in groups of " + std::to_string(group_size));
        CHECK_TRUE(RoundsToReachAll(size, group_size, first) <= 12);
      }
    }
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
