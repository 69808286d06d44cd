// The schedule of every world up to 1024 ranks: who meets whom, over which elements.

#include "cc/algorithms/schedule.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/cc/bytes_sent.h"
#include "tests/cc/check.h"

namespace adasum {
namespace {

using test::BytesSent;
using test::Scope;

constexpr int kMostRanks = 1024;
constexpr int64_t kGranularity = 64;
constexpr int64_t kCounts[] = {0, 1, 64, 65, 1000, 262147};

// Written unlike the code under test: the highest bit.
int PowerBelow(int size) { return 1 << (31 - __builtin_clz(static_cast<unsigned>(size))); }

std::vector<Schedule> SchedulesOf(int size, int64_t count) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < size; ++rank) schedules.push_back(MakeSchedule(rank, size, count));
  return schedules;
}

// Calls check(size, count, schedules) for every world.
template <typename Check>
void ForEveryWorld(Check check) {
  for (int size = 1; size <= kMostRanks; ++size) {
    for (int64_t count : kCounts) {
      Scope scope("size " + std::to_string(size) + ", elements " + std::to_string(count));
      check(size, count, SchedulesOf(size, count));
    }
  }
}

bool AreEqual(Range a, Range b) { return a.begin == b.begin && a.end == b.end; }

TEST(FoldsPairUp) {
  ForEveryWorld([](int size, int64_t, const std::vector<Schedule>& schedules) {
    const int power = PowerBelow(size);
    for (int rank = 0; rank < size; ++rank) {
      const Schedule& mine = schedules[rank];
      bool gives = rank >= power, takes = rank + power < size;
      CHECK_TRUE(mine.fold == (gives ? Fold::kGives : takes ? Fold::kTakes : Fold::kNone));
      CHECK_EQ(mine.fold_peer, gives ? rank - power : takes ? rank + power : -1);
      if (mine.fold_peer >= 0) CHECK_EQ(schedules[mine.fold_peer].fold_peer, rank);
      CHECK_EQ(size_t{1} << mine.levels.size(), static_cast<size_t>(gives ? 1 : power));
    }
  });
}

TEST(PeersMirrorEachOther) {
  ForEveryWorld([](int, int64_t count, const std::vector<Schedule>& schedules) {
    for (size_t rank = 0; rank < schedules.size(); ++rank) {
      Range shared{0, count};
      for (size_t i = 0; i < schedules[rank].levels.size(); ++i) {
        const Level& mine = schedules[rank].levels[i];
        const Level& theirs = schedules[mine.peer].levels[i];
        CHECK_EQ(mine.distance, 1 << i);
        CHECK_EQ(theirs.peer, static_cast<int>(rank));
        CHECK_TRUE(AreEqual(mine.keep, theirs.give) && AreEqual(mine.give, theirs.keep));
        CHECK_EQ(mine.is_left, !theirs.is_left);
        // Neighbours in the tree: the left one is lower by the distance.
        CHECK_EQ(mine.peer - static_cast<int>(rank), mine.is_left ? mine.distance : -mine.distance);
        // What is kept and what is given make up what both had, the left rank's half first.
        const Range& lower = mine.is_left ? mine.keep : mine.give;
        const Range& upper = mine.is_left ? mine.give : mine.keep;
        CHECK_TRUE(lower.begin == shared.begin && lower.end == upper.begin &&
                   upper.end == shared.end);
        shared = mine.keep;
      }
    }
  });
}

TEST(HalvesAreEvenAndAligned) {
  ForEveryWorld([](int, int64_t count, const std::vector<Schedule>& schedules) {
    for (const Schedule& mine : schedules) {
      int64_t shared = count;
      for (const Level& level : mine.levels) {
        CHECK_TRUE(level.keep.size() >= 0 && level.give.size() >= 0);
        CHECK_TRUE(level.keep.size() <= shared / 2 + kGranularity);
        CHECK_TRUE(level.keep.size() == 0 || level.keep.begin % kGranularity == 0);
        shared = level.keep.size();
      }
    }
  });
}

TEST(LastKeptRangesPartitionTheVector) {
  ForEveryWorld([](int size, int64_t count, const std::vector<Schedule>& schedules) {
    if (size == 1) return;  // no level: nothing is split
    std::vector<std::pair<int64_t, int64_t>> kept;
    for (const Schedule& mine : schedules) {
      if (mine.levels.empty()) continue;
      Range keep = mine.levels.back().keep;
      if (keep.size() > 0) kept.push_back({keep.begin, keep.end});
    }
    std::sort(kept.begin(), kept.end());
    int64_t reached = 0;
    for (const auto& [begin, end] : kept) {
      CHECK_EQ(begin, reached);
      reached = end;
    }
    CHECK_EQ(reached, count);
  });
}

TEST(BytesOfAllRanks) {
  constexpr int64_t kElementBytes = 4, kNumMoments = 3;
  ForEveryWorld([](int size, int64_t count, const std::vector<Schedule>&) {
    if (count == 0) return;
    auto sent = [&](Algorithm algorithm) {
      int64_t of_all = 0;
      for (int rank = 0; rank < size; ++rank) {
        of_all += BytesSent(rank, size, count, kElementBytes, kNumMoments, algorithm);
      }
      return of_all;
    };
    // p ranks send 2 (p - 1) / p vectors each, a fold is one vector there and one back.
    int64_t power = PowerBelow(size), num_levels = __builtin_ctzll(power);
    int64_t vectors = 2 * (power - 1) + 2 * (size - power);
    // Level k sums over 2^k ranks in k rounds.
    int64_t rounds = power * num_levels * (num_levels + 1) / 2;
    const int64_t expected = vectors * count * kElementBytes + rounds * kNumMoments * 24;
    CHECK_EQ(sent(Algorithm::kRecursiveHalving), expected);
    // Every rank sends all its parts but its own, and that one's result and products to all.
    vectors = 2 * (size - 1);
    const int64_t grams = size * (size - 1) * int64_t{size} * (size + 1) / 2 * kNumMoments * 8;
    CHECK_EQ(sent(Algorithm::kDirect), vectors * count * kElementBytes + grams);
    vectors = power * num_levels + 2 * (size - power);
    CHECK_EQ(sent(Algorithm::kRecursiveDoubling), vectors * count * kElementBytes);
  });
}

TEST(BytesOfOneRank) {
  // Where the halves come out even, every rank sends the same.
  for (int power = 2; power <= kMostRanks; power *= 2) {
    Scope scope("size " + std::to_string(power));
    int64_t count = kGranularity * power * 3;
    for (int rank = 0; rank < power; ++rank) {
      for (Algorithm algorithm : {Algorithm::kRecursiveHalving, Algorithm::kDirect}) {
        CHECK_EQ(BytesSent(rank, power, count, 8, 0, algorithm),
                 2 * (power - 1) * (count / power) * 8);
      }
    }
  }
}

TEST(PartsPartitionTheVector) {
  for (int size = 1; size <= kMostRanks; ++size) {
    for (int64_t count : {int64_t{0}, int64_t{1}, int64_t{65}, int64_t{257}, int64_t{262147},
                          int64_t{9000000000000000007}}) {
      Scope scope("size " + std::to_string(size) + ", elements " + std::to_string(count));
      int64_t reached = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Range part = PartOf(rank, size, count);
        CHECK_EQ(part.begin, reached);
        CHECK_TRUE(part.size() >= 0 && part.size() <= PartOf(0, size, count).size());
        CHECK_TRUE(part.size() <= count / size + kGranularity);
        CHECK_TRUE(part.size() == 0 || part.begin % kGranularity == 0);
        reached = part.end;
      }
      CHECK_EQ(reached, count);
    }
  }
}

// Who meets whom is what the schedules say, level by level.
TEST(TreeOfAllSchedules) {
  for (int size = 1; size <= kMostRanks; ++size) {
    Scope scope("size " + std::to_string(size));
    const std::vector<Schedule> schedules = SchedulesOf(size, 0);
    std::vector<std::pair<int, int>> expected;
    for (int rank = 0; rank < size; ++rank) {
      if (schedules[rank].fold == Fold::kTakes)
        expected.push_back({rank, schedules[rank].fold_peer});
    }
    for (size_t level = 0; level < schedules[0].levels.size(); ++level) {
      for (int rank = 0; rank < PowerBelow(size); rank += 2 << level) {
        expected.push_back({rank, schedules[rank].levels[level].peer});
      }
    }
    const std::vector<TreeNode> tree = MakeTree(size);
    CHECK_EQ(tree.size(), expected.size());
    std::vector<int> num_leaves(size, 1);
    for (size_t i = 0; i < tree.size(); ++i) {
      CHECK_EQ(tree[i].left, expected[i].first);
      CHECK_EQ(tree[i].right, expected[i].second);
      CHECK_EQ(tree[i].leaves.left, num_leaves[tree[i].left]);
      CHECK_EQ(tree[i].leaves.right, num_leaves[tree[i].right]);
      num_leaves[tree[i].left] += num_leaves[tree[i].right];
      CHECK_EQ(tree[i].is_final, i + 1 == tree.size());
    }
    CHECK_EQ(num_leaves[0], size);
  }
}

TEST(NothingToSend) {
  for (int size = 1; size <= 9; ++size) {
    for (int rank = 0; rank < size; ++rank)
      CHECK_EQ(BytesSent(rank, size, 0, 4, 0, Algorithm::kRecursiveHalving), int64_t{0});
  }
  CHECK_EQ(BytesSent(0, 1, 1000, 4, 1, Algorithm::kRecursiveHalving), int64_t{0});
  CHECK_EQ(BytesSent(0, 1, 1000, 4, 1, Algorithm::kDirect), int64_t{0});
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
