// Rounds of groups: who meets whom, what a call gets in time and late, and how they end.

#include "cc/collectives/partial_allreduce.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "cc/collectives/rotating_groups.h"
#include "tests/cc/check.h"
#include "tests/cc/partial_calls.h"
#include "tests/cc/tree.h"

namespace adasum {
namespace {

using test::CallPartial;
using test::Contains;
using test::Describe;
using test::ForEachRank;
using test::ForEachWorld;
using test::Is;
using test::PartialResult;
using test::Ranks;
using test::ReduceTree;
using test::Scope;
using test::Wire;

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

double ValueOf(int rank, int64_t round, int64_t i) {
  return (rank + 1.0) * (1 + (round * 7 + i * 3 + rank * i) % 11);
}

std::vector<double> ValuesOf(int rank, int64_t round, int64_t length) {
  std::vector<double> values(length);
  for (int64_t i = 0; i < length; ++i) values[i] = ValueOf(rank, round, i);
  return values;
}

// Ranks that wait for each other before each call are all in time.
TEST(InTimeItIsTheReductionOfTheGroup) {
  constexpr int64_t kLength = 3000;
  ForEachWorld({1, 2, 3, 4, 5}, [](Wire wire, int size) {
    for (const char* reduction : {"mean", "adasum"}) {
      for (int group_size : {2, 4}) {
        Ranks ranks(wire, size);
        for (int64_t round = 0; round < 6; ++round) {
          Scope scope(std::string(reduction) + ", round " + std::to_string(round));
          ForEachRank(size, [&](int rank) {
            const PartialResult result =
                CallPartial(ranks[rank], ValuesOf(rank, round, kLength), reduction, group_size);
            CHECK_EQ(Describe(result.ending), "");
            if (result.num_behind != 0) return;  // this thread came late; other tests look at that
            if (round > 0) return;               // others may have been late
            std::vector<std::vector<double>> leaves;
            for (int member : RotatingGroup(rank, size, group_size, round)) {
              leaves.push_back(ValuesOf(member, round, kLength));
            }
            const auto expected = ReduceTree(reduction, DType::kFloat64, leaves);
            CHECK_AT_MOST(test::Distance(result.values, expected), 1e-12 * test::Norm(expected));
          });
        }
      }
    }
  });
}

// Nobody but itself could tell: it would combine its tensors with a result of other ones.
TEST(LateCallOfOtherShapesIsRefused) {
  ForEachWorld({2}, [](Wire wire, int size) {
    Ranks ranks(wire, size);
    const std::vector<double> values{1, 2, 3, 4};
    ForEachRank(size, [&](int rank) { CallPartial(ranks[rank], values); });
    CHECK_EQ(Describe(CallPartial(ranks[0], values).ending), "");
    for (const std::vector<double>& others :
         {std::vector<double>{7}, std::vector<double>(5000, 7)}) {
      const PartialResult late = CallPartial(ranks[1], others);
      CHECK_TRUE(Is(late.ending, ErrorCode::kInvalidArgument));
      CHECK_TRUE(Contains(Describe(late.ending), "to be the same operation on every rank"));
    }
    CHECK_EQ(Describe(CallPartial(ranks[1], values).ending), "");
  });
}

// From a call of other shapes on, in which all have met, those count.
TEST(ShapesMayChangeWhereAllMeet) {
  ForEachWorld({2, 3}, [](Wire wire, int size) {
    Ranks ranks(wire, size);
    ForEachRank(size, [&](int rank) { CallPartial(ranks[rank], {4}); });
    CallPartial(ranks[0], {4});
    for (int rank = 0; rank < size; ++rank) test::ResetPartial(ranks[rank], true);
    const std::vector<double> longer(100'000, 1);
    ForEachRank(size, [&](int rank) { CallPartial(ranks[rank], longer); });
    const PartialResult early = CallPartial(ranks[0], longer);
    CHECK_EQ(early.values.back(), 1.0);
    CHECK_TRUE(CallPartial(ranks[1], longer).values == longer);
  });
}

// The first call of all, and then rank 0 three more.
TEST(NobodyWaitsForALateRank) {
  ForEachWorld({2}, [](Wire wire, int size) {
    Ranks ranks(wire, size);
    ForEachRank(size,
                [&](int rank) { CHECK_EQ(CallPartial(ranks[rank], {rank + 1.0}).values[0], 1.5); });
    for (double own : {10.0, 20.0, 30.0}) {
      const PartialResult result = CallPartial(ranks[0], {own});
      CHECK_EQ(result.num_behind, int64_t{0});
      CHECK_EQ(result.values[0], (own + 2) / 2);  // with what rank 1 had last
    }
    // The newest result, of two leaves, and rank 1's own.
    PartialResult late = CallPartial(ranks[1], {7});
    CHECK_EQ(late.num_behind, int64_t{3});
    CHECK_AT_MOST(std::abs(late.values[0] - (2 * 16.0 + 7) / 3), 1e-12);
    // No result is taken twice.
    late = CallPartial(ranks[1], {8});
    CHECK_EQ(late.num_behind, int64_t{2});
    CHECK_EQ(late.values[0], 8.0);
    // Meanwhile rank 0 goes on, with what rank 1 has by now.
    CHECK_EQ(CallPartial(ranks[0], {40}).values[0], 24.0);
    late = CallPartial(ranks[1], {9});
    CHECK_EQ(late.num_behind, int64_t{2});
    CHECK_AT_MOST(std::abs(late.values[0] - (2 * 24.0 + 9) / 3), 1e-12);
  });
}

TEST(ALateAdasumIsThatOfTwo) {
  ForEachWorld({2}, [](Wire wire, int size) {
    Ranks ranks(wire, size);
    ForEachRank(size, [&](int rank) { CallPartial(ranks[rank], {1, 2}, "adasum"); });
    const PartialResult first = CallPartial(ranks[0], {3, 0}, "adasum");
    const auto of_round = ReduceTree("adasum", DType::kFloat64, {{3, 0}, {1, 2}});
    CHECK_AT_MOST(test::Distance(first.values, of_round), 1e-12);
    const PartialResult late = CallPartial(ranks[1], {-1, 4}, "adasum");
    CHECK_EQ(late.num_behind, int64_t{1});
    const auto expected = ReduceTree("adasum", DType::kFloat64, {first.values, {-1, 4}});
    CHECK_AT_MOST(test::Distance(late.values, expected), 1e-12);
  });
}

TEST(AfterAResetALateRankCountsAsZero) {
  ForEachWorld({2}, [](Wire wire, int size) {
    Ranks ranks(wire, size);
    ForEachRank(size, [&](int rank) { CallPartial(ranks[rank], {4, 4}); });
    CallPartial(ranks[0], {6, 6});
    for (int rank : {0, 1}) test::ResetPartial(ranks[rank]);
    CHECK_EQ(CallPartial(ranks[0], {8, 2}).values[0], 4.0);
    // Results of before a reset are forgotten; that of after is not.
    CHECK_AT_MOST(std::abs(CallPartial(ranks[1], {1, 1}).values[0] - 3.0), 1e-12);
    CHECK_EQ(CallPartial(ranks[1], {1, 1}).num_behind, int64_t{1});
  });
}

// Rank 0 made calls that rank 1 never makes; from a restart on they are in step again.
TEST(ARestartBringsRanksInStep) {
  ForEachWorld({2, 3}, [](Wire wire, int size) {
    Ranks ranks(wire, size);
    ForEachRank(size, [&](int rank) { CallPartial(ranks[rank], {4}); });
    for (int i = 0; i < 3; ++i) CallPartial(ranks[0], {4});
    for (int rank = 0; rank < size; ++rank) test::ResetPartial(ranks[rank], true);
    ForEachRank(size, [&](int rank) {
      const PartialResult first = CallPartial(ranks[rank], {1.0 * rank});
      CHECK_EQ(first.num_behind, int64_t{0});
    });
    CHECK_EQ(CallPartial(ranks[1], {5}).num_behind, int64_t{0});
    CHECK_EQ(CallPartial(ranks[0], {6}).num_behind, int64_t{1});
  });
}

// A rank that has made all its calls may leave; late calls of others need it no more.
TEST(LateCallsNeedNobodyWhoLeft) {
  Ranks ranks(Wire::kSharedMemory, 2);
  ForEachRank(2, [&](int rank) { CallPartial(ranks[rank], {1}); });
  for (int i = 0; i < 3; ++i) CallPartial(ranks[1], {3});
  ranks[1].Close();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // or rank 0 may not have heard
  for (int i = 0; i < 3; ++i) CHECK_EQ(Describe(CallPartial(ranks[0], {5}).ending), "");
  CHECK_TRUE(Is(CallPartial(ranks[0], {5}).ending, ErrorCode::kUnavailable));
}

// A peer reads what was there when a round began, and nothing of what took its place since.
TEST(LateCallsInARowKeepTwoVectors) {
  constexpr int kCalls = 50;
  Ranks ranks(Wire::kSharedMemory, 2);
  ForEachRank(2, [&](int rank) { CallPartial(ranks[rank], {1}); });
  for (int i = 0; i < kCalls; ++i) CallPartial(ranks[1], {3});
  for (int i = 0; i < kCalls; ++i) {
    CHECK_EQ(CallPartial(ranks[0], {5}).num_behind, int64_t{kCalls} - i);
    CHECK_TRUE(test::num_kept <= 4);  // two of each rank
  }
}

TEST(UnlikeCallsFailOnEveryRank) {
  ForEachWorld({2, 3}, [](Wire wire, int size) {
    Ranks ranks(wire, size);
    ForEachRank(size, [&](int rank) {
      const PartialResult result =
          CallPartial(ranks[rank], std::vector<double>(rank == 1 ? 2 : 3, 1.0));
      CHECK_TRUE(Is(result.ending, ErrorCode::kInvalidArgument));
      CHECK_TRUE(Contains(Describe(result.ending), "rank 1 passed allreduce in groups of 2"));
    });
  });
}

TEST(ARankThatLeavesEndsTheCallsOfAll) {
  for (int size : {2, 3, 5}) {
    Scope scope(std::to_string(size) + " ranks");
    Ranks ranks(Wire::kSharedMemory, size);
    ForEachRank(size, [&](int rank) { CallPartial(ranks[rank], {1}); });
    ranks[1].Close();
    for (int rank = 0; rank < size; ++rank) {
      const PartialResult result = CallPartial(ranks[rank], {1});
      CHECK_TRUE(Is(result.ending, ErrorCode::kUnavailable));
    }
  }
}

std::string RefusalOf(Communicator& communicator, const std::string& reduction, int group_size) {
  try {
    CallPartial(communicator, {1}, reduction, group_size);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(WhatIsNoGroupIsRefused) {
  Ranks ranks(Wire::kSharedMemory, 1);
  for (int group_size : {0, 1, 3, 6}) {
    CHECK_TRUE(Contains(RefusalOf(ranks[0], "mean", group_size), "power of two"));
  }
  CHECK_TRUE(Contains(RefusalOf(ranks[0], "sum", 2), "'adasum' or 'mean'"));
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
