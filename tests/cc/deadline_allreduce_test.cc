// The allreduce that leaves out what is late: what is in the results, by the definition; what is
// left out, alike on all ranks and within the bound; and that nothing waits for what is left out.

#include "cc/collectives/deadline_allreduce.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "tests/cc/check.h"
#include "tests/cc/deadline_calls.h"

namespace adasum {
namespace {

using namespace std::chrono_literals;
using test::Call;
using test::Check;
using test::Describe;
using test::Draw;
using test::Ending;
using test::ForEachRank;
using test::kAmpleMilliseconds;
using test::kCounts;
using test::LateRanks;
using test::LateWire;
using test::Outcome;
using test::Phase;
using test::Phases;
using test::RandomInputs;
using test::Reduce;
using test::ReduceOnAll;
using test::Scope;
using test::Vectors;

const char* const kReductions[] = {"adasum", "mean", "sum"};

LateWire::Clock::duration NotLate(int, int, int64_t) { return 0ms; }

// Beyond eight ranks what ranks tell each other goes by the first.
TEST(NothingIsLate) {
  for (int size : {1, 2, 3, 4, 5, 9, 11}) {
    LateRanks ranks(size, NotLate);
    for (const char* reduction : kReductions) {
      Scope scope(std::to_string(size) + " ranks, " + reduction);
      Call call{reduction};
      const std::vector<Vectors> inputs = RandomInputs(size, size);
      const std::vector<Outcome> outcomes = ReduceOnAll(ranks, inputs, call);
      Check(call, inputs, outcomes, Phase::kParts);
      CHECK_EQ(outcomes[0].share, 0.0);
    }
    CHECK_EQ(ranks.wire().num_under_way(), int64_t{0});
  }
}

TEST(ListsOfAnyLength) {
  const std::vector<std::vector<int64_t>> all = {{0},   {1},      {0, 0, 3},          {511},
                                                 {512}, {513, 1}, {140000, 5, 131000}};
  for (int size : {1, 2, 3, 5}) {
    LateRanks ranks(size, NotLate);
    for (const std::vector<int64_t>& counts : all) {
      Scope scope(std::to_string(size) + " ranks, " + std::to_string(counts[0]));
      Call call{"adasum"};
      const std::vector<Vectors> inputs = RandomInputs(size, 1, counts);
      Check(call, inputs, ReduceOnAll(ranks, inputs, call), Phase::kParts);
    }
  }
}

// Some are late by more than the deadline; which others are, the load of the machine says.
TEST(SomeAreLate) {
  for (int size : {2, 3, 4, 5}) {
    for (const char* reduction : kReductions) {
      Scope scope(std::to_string(size) + " ranks, " + reduction);
      const Phases phases(size);
      const bool only_parts = std::string(reduction) == "adasum";
      LateRanks ranks(size, [&](int from, int, int64_t number) -> LateWire::Clock::duration {
        if (only_parts && phases.Of(from, number) == Phase::kResults) return 0ms;
        return Draw(from, number, 10) ? 60ms : 0ms;
      });
      double most = 0;
      int num_compared = 0;
      for (unsigned turn = 0; turn < 6; ++turn) {
        const Call call{reduction, 40, 0.8};
        const std::vector<Vectors> inputs = RandomInputs(size, turn);
        const std::vector<Outcome> outcomes = ReduceOnAll(ranks, inputs, call);
        num_compared += Check(call, inputs, outcomes);
        most = std::max(most, outcomes[0].share);
      }
      CHECK_TRUE(most > 0);
      CHECK_TRUE(num_compared > 0);
    }
  }
}

// Adasum's weights are those of the parts; a result that is late takes its elements with it.
TEST(ResultsAreLate) {
  for (int size : {2, 3, 5}) {
    Scope scope(std::to_string(size) + " ranks");
    const Phases phases(size);
    LateRanks ranks(size, [&](int from, int, int64_t number) -> LateWire::Clock::duration {
      const bool is_late = phases.Of(from, number) == Phase::kResults && from == 0;
      return is_late ? LateWire::kNever : 0ms;
    });
    // Ample for parts, of which none is late.
    const Call call{"adasum", 3000, 0.9};
    const std::vector<Vectors> inputs = RandomInputs(size, 7);
    const std::vector<Outcome> outcomes = ReduceOnAll(ranks, inputs, call);
    Check(call, inputs, outcomes, Phase::kResults);
    CHECK_TRUE(outcomes[0].share > 0);
    ranks.wire().LetAllCome();
  }
}

// It would wait for an hour.
TEST(WhatIsLeftOutIsNotWaitedFor) {
  for (int size : {2, 3, 4, 5}) {
    Scope scope(std::to_string(size) + " ranks");
    const Phases phases(size);
    std::atomic<bool> are_held{true};
    // Rank 0's parts; those to rank 1 wait behind each other, and the last are not sent at all.
    LateRanks ranks(size, [&](int from, int, int64_t number) -> LateWire::Clock::duration {
      const bool is_part = phases.Of(from, number) == Phase::kParts;
      return are_held && from == 0 && is_part ? LateWire::kNever : 0ms;
    });
    Call call{"mean", 20, 1};
    const std::vector<Vectors> inputs = RandomInputs(size, 3);
    const std::vector<Outcome> outcomes = ReduceOnAll(ranks, inputs, call);
    Check(call, inputs, outcomes);
    CHECK_TRUE(outcomes[0].share > 0);
    are_held = false;
    ranks.wire().LetAllCome();
    // What was left out goes into the next call, as residuals do, and so into the sum of both.
    call.milliseconds = kAmpleMilliseconds;
    std::vector<Vectors> rest = inputs;
    for (int rank = 0; rank < size; ++rank) rest[rank] = outcomes[rank].left_out;
    for (const Outcome& outcome : ReduceOnAll(ranks, rest, call)) {
      CHECK_EQ(Describe(outcome.ending), "");
      for (size_t tensor = 0; tensor < kCounts.size(); ++tensor) {
        for (int64_t i = 0; i < kCounts[tensor]; ++i) {
          double expected = 0;
          for (const Vectors& of_rank : inputs) expected += of_rank[tensor][i] / size;
          const double sum = outcomes[0].outputs[tensor][i] + outcome.outputs[tensor][i];
          CHECK_AT_MOST(std::abs(sum - expected), 1e-12);
        }
      }
    }
  }
}

// A queue of 32 messages that don't come holds back the rest: they are never sent, and nothing
// waits for them afterwards.
TEST(WhatHasNotBegunIsNotSent) {
  const std::vector<int64_t> counts = {512 * 200};
  std::atomic<bool> are_held{true};
  const Phases phases(2, counts);
  LateRanks ranks(2, [&](int from, int, int64_t) -> LateWire::Clock::duration {
    return are_held && from == 0 ? LateWire::kNever : 0ms;
  });
  Call call{"sum", 20, 1};
  const std::vector<Vectors> inputs = RandomInputs(2, 3, counts);
  const std::vector<Outcome> outcomes = ReduceOnAll(ranks, inputs, call);
  Check(call, inputs, outcomes);
  // Of rank 1 all 200, unless the machine is loaded; of rank 0 32 parts and 32 results.
  CHECK_TRUE(ranks.num_started() <= 200 + 64);
  are_held = false;
  ranks.wire().LetAllCome();
  call.milliseconds = kAmpleMilliseconds;
  const std::vector<Outcome> later = ReduceOnAll(ranks, inputs, call);
  Check(call, inputs, later);
  CHECK_EQ(later[0].share, 0.0);
  CHECK_EQ(ranks.wire().num_under_way(), int64_t{0});
}

// Beyond the bound it waits.
TEST(NoMoreThanTheBound) {
  for (int size : {2, 3, 5}) {
    for (double bound : {0.0, 0.05, 0.2}) {
      Scope scope(std::to_string(size) + " ranks, " + std::to_string(bound));
      LateRanks ranks(size, [](int from, int, int64_t number) -> LateWire::Clock::duration {
        return Draw(from, number, 60) ? 30ms : 0ms;
      });
      const Call call{"mean", 10, bound};
      for (unsigned turn = 0; turn < 4; ++turn) {
        const std::vector<Vectors> inputs = RandomInputs(size, turn);
        Check(call, inputs, ReduceOnAll(ranks, inputs, call));  // and of the bound
      }
    }
  }
}

// Of two parts of which one may be left out, the one that says more is waited for.
TEST(LargePartsAreWaitedFor) {
  const std::vector<int64_t> counts = {512 * 4};  // chunks 1 and 3 go from rank 0 to rank 1
  for (double large : {100.0, std::nan(""), HUGE_VAL}) {
    for (int64_t chunk : {1, 3}) {
      Scope scope(std::to_string(large) + " in chunk " + std::to_string(chunk));
      LateRanks ranks(2, [&](int from, int, int64_t number) -> LateWire::Clock::duration {
        if (from != 0 || number > 1) return 0ms;
        return number == chunk / 2 ? 100ms : LateWire::kNever;
      });
      std::vector<Vectors> inputs = RandomInputs(2, 5, counts);
      inputs[0][0][512 * chunk] = large;
      // What else is late on a loaded machine is no candidate.
      for (double& value : inputs[1][0]) value *= 1000;
      const Call call{"sum", 10, 1.0 / 8};
      const std::vector<Outcome> outcomes = ReduceOnAll(ranks, inputs, call);
      for (const Outcome& outcome : outcomes) CHECK_EQ(Describe(outcome.ending), "");
      CHECK_EQ(outcomes[0].share, 1.0 / 8);
      const std::vector<double>& left_out = outcomes[0].left_out[0];
      const int64_t other = 4 - chunk;
      CHECK_TRUE(std::equal(left_out.begin() + 512 * other, left_out.begin() + 512 * (other + 1),
                            inputs[0][0].begin() + 512 * other));
      ranks.wire().LetAllCome();
    }
  }
}

// Lanes go round: 4,095, of which a call takes 256 and more. No two messages meet on one.
TEST(LanesAreUsedAgain) {
  const std::vector<int64_t> counts = {512 * 256};
  LateRanks ranks(2, [](int from, int, int64_t number) -> LateWire::Clock::duration {
    return Draw(from, number, 2) ? 200ms : 0ms;
  });
  for (unsigned turn = 0; turn < 60; ++turn) {
    const Call call{"sum", 4, 0.3};
    const std::vector<Vectors> inputs = RandomInputs(2, turn, counts);
    Check(call, inputs, ReduceOnAll(ranks, inputs, call));
  }
}

TEST(ALostRankIsAnError) {
  LateRanks ranks(3, NotLate, 1);
  const std::vector<Vectors> inputs = RandomInputs(3, 1);
  ReduceOnAll(ranks, inputs, {});
  std::vector<Ending> endings(3);
  ForEachRank(3, [&](int rank) {
    if (rank == 2) return;
    endings[rank] = Reduce(ranks[rank], inputs[rank], {}).ending;
  });
  for (int rank : {0, 1}) CHECK_TRUE(endings[rank].has_value());
}

TEST(WhatIsRefused) {
  LateRanks ranks(1, NotLate);
  const auto refusal = [&](Call call, DType dtype = DType::kFloat32) -> std::string {
    DeadlineTensors tensors;
    tensors.dtype = dtype;
    tensors.shapes = {{1}};
    tensors.reductions = {call.reduction};
    tensors.milliseconds = call.milliseconds;
    tensors.max_left_out = call.max_left_out;
    try {
      DeadlineAllreduceRequest(tensors);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK_EQ(refusal({}), "");
  CHECK_TRUE(test::Contains(refusal({"max"}), "'adasum', 'mean' or 'sum'"));
  CHECK_TRUE(test::Contains(refusal({"sum", -1}), "0 milliseconds or more"));
  CHECK_TRUE(test::Contains(refusal({"sum", NAN}), "0 milliseconds or more"));
  CHECK_TRUE(test::Contains(refusal({"sum", 1, 1.5}), "max_left_out from 0 to 1"));
  CHECK_TRUE(test::Contains(refusal({"sum", 1, NAN}), "max_left_out from 0 to 1"));
  CHECK_TRUE(test::Contains(refusal({}, DType::kInt32), "floats"));
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
