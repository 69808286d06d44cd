// Rounds of groups: what a call gets in time and late, and how they end.

#include "cc/collectives/partial_allreduce.h"

#include <chrono>
#include <numeric>
#include <optional>
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

// Whatever rounds there were before: a training that resumes goes on where another one ended.
TEST(ARoundThatWaitsGoesByItsTurn) {
  ForEachWorld({1, 2, 3, 4, 5}, [](Wire wire, int size) {
    Ranks ranks(wire, size);
    for (int64_t turn : std::vector<int64_t>{7, 2, 2, 6'000'000'001}) {
      ForEachRank(size, [&](int rank) {
        const PartialResult result = CallPartial(ranks[rank], {1.0 * rank}, "mean", 2, turn);
        const std::vector<int> group = RotatingGroup(rank, size, 2, turn);
        const double sum = std::accumulate(group.begin(), group.end(), 0.0);
        CHECK_EQ(result.values[0], sum / static_cast<double>(group.size()));
        CHECK_EQ(result.num_behind, int64_t{0});
      });
    }
    if (size == 1) return;
    ForEachRank(size, [&](int rank) {
      const PartialResult result = CallPartial(ranks[rank], {1}, "mean", 2, rank == 1 ? 4 : 3);
      CHECK_TRUE(Is(result.ending, ErrorCode::kInvalidArgument));
      CHECK_TRUE(Contains(Describe(result.ending), "by mean, turn 4"));
    });
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

std::string RefusalOf(Communicator& communicator, const std::string& reduction, int group_size,
                      std::optional<int64_t> turn = std::nullopt) {
  try {
    CallPartial(communicator, {1}, reduction, group_size, turn);
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
  CHECK_TRUE(Contains(RefusalOf(ranks[0], "mean", 2, -1), "turn of the groups from 0"));
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
