// The allreduce that leaves out what is late: what is in the results, by the definition; what is
// left out, alike on all ranks and within the bound; and that nothing waits for what is left out.

#include "cc/collectives/deadline_allreduce.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <thread>

#include "cc/collectives/dealt_chunks.h"
#include "tests/cc/check.h"
#include "tests/cc/late_transport.h"
#include "tests/cc/ranks.h"
#include "tests/cc/tree.h"

namespace adasum {
namespace {

using namespace std::chrono_literals;
using test::Describe;
using test::Ending;
using test::ForEachRank;
using test::LateTransport;
using test::LateWire;
using test::Scope;
using test::Wire;
using test::World;
using Vectors = std::vector<std::vector<double>>;  // of each tensor

constexpr double kAmpleMilliseconds = 60000;
// Several chunks, which begin and end within tensors.
const std::vector<int64_t> kCounts = {3, 4000, 0, 2500, 1, 700};
const char* const kReductions[] = {"adasum", "mean", "sum"};

class LateRanks {
 public:
  LateRanks(int size, LateWire::Lateness lateness, double silence_seconds = 60)
      : world_(Wire::kCopies, size, silence_seconds), wire_(std::move(lateness)) {
    for (int rank = 0; rank < size; ++rank) {
      auto late = std::make_unique<LateTransport>(world_.TakeTransport(rank), &wire_);
      transports_.push_back(late.get());
      communicators_.push_back(
          std::make_unique<Communicator>(world_.TakeWaits(rank), std::move(late),
                                         Topology{rank, size, 1, {{0}}, WidestInstructionSet()}));
    }
  }
  int size() const { return static_cast<int>(communicators_.size()); }
  Communicator& operator[](int rank) { return *communicators_[rank]; }
  LateWire& wire() { return wire_; }
  int64_t num_started() const {
    int64_t sum = 0;
    for (const LateTransport* each : transports_) sum += each->num_started;
    return sum;
  }

 private:
  World world_;
  LateWire wire_;
  std::vector<LateTransport*> transports_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

struct Outcome {
  Ending ending;
  Vectors outputs, left_out;
  double share = -1;
};

struct Call {
  std::string reduction = "sum";
  double milliseconds = kAmpleMilliseconds;
  double max_left_out = 1;
};

std::vector<void*> Addresses(Vectors& vectors) {
  std::vector<void*> addresses;
  for (std::vector<double>& each : vectors) {
    addresses.push_back(each.empty() ? nullptr : each.data());
  }
  return addresses;
}

Outcome Reduce(Communicator& communicator, const Vectors& inputs, const Call& call) {
  Outcome outcome{{}, inputs, inputs};
  for (std::vector<double>& each : outcome.outputs) std::fill(each.begin(), each.end(), NAN);
  DeadlineTensors tensors;
  tensors.name = "deadline";
  tensors.dtype = DType::kFloat64;
  for (const std::vector<double>& each : inputs) {
    tensors.shapes.push_back({static_cast<int64_t>(each.size())});
    tensors.reductions.push_back(call.reduction);
  }
  tensors.milliseconds = call.milliseconds;
  tensors.max_left_out = call.max_left_out;
  tensors.outputs = Addresses(outcome.outputs);
  tensors.left_out = Addresses(outcome.left_out);
  tensors.inputs.assign(tensors.left_out.begin(), tensors.left_out.end());
  tensors.share = &outcome.share;
  test::Pending pending;
  Request request = DeadlineAllreduceRequest(std::move(tensors));
  request.done = pending.done();
  communicator.Enqueue(std::move(request));
  outcome.ending = pending.Await();
  return outcome;
}

std::vector<Outcome> ReduceOnAll(LateRanks& ranks, const std::vector<Vectors>& inputs,
                                 const Call& call) {
  std::vector<Outcome> outcomes(ranks.size());
  ForEachRank(ranks.size(),
              [&](int rank) { outcomes[rank] = Reduce(ranks[rank], inputs[rank], call); });
  return outcomes;
}

// Without zeros, so that what is left out can be told.
std::vector<Vectors> RandomInputs(int size, unsigned seed,
                                  const std::vector<int64_t>& counts = kCounts) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.3, 1);
  std::vector<Vectors> inputs(size);
  for (Vectors& of_rank : inputs) {
    for (int64_t count : counts) {
      of_rank.emplace_back(count);
      for (double& value : of_rank.back()) value = normal(random);
    }
  }
  return inputs;
}

enum class Phase { kParts, kResults };

// Whether all ranks have left out an element. Of parts that can't be: the owner has its own.
bool IsResultLeftOut(const std::vector<Outcome>& outcomes, size_t tensor, size_t i) {
  return std::all_of(outcomes.begin(), outcomes.end(),
                     [&](const Outcome& outcome) { return outcome.left_out[tensor][i] != 0; });
}

// The reduction of what is not left out; or, where only results can be late, of all, without the
// chunks that nobody has.
std::vector<double> Expected(const std::string& reduction, const std::vector<Vectors>& inputs,
                             const std::vector<Outcome>& outcomes, size_t tensor, Phase late) {
  Vectors leaves;
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    leaves.push_back(inputs[rank][tensor]);
    if (late == Phase::kResults) continue;
    for (size_t i = 0; i < leaves.back().size(); ++i) {
      leaves.back()[i] -= outcomes[rank].left_out[tensor][i];
    }
  }
  std::vector<double> expected = test::ReduceTree(reduction, DType::kFloat64, leaves);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (IsResultLeftOut(outcomes, tensor, i)) expected[i] = 0;
  }
  return expected;
}

// Returns how many tensors were compared to what they should be.
int Check(const Call& call, const std::vector<Vectors>& inputs,
          const std::vector<Outcome>& outcomes, Phase late = Phase::kParts) {
  int64_t num_elements = 0, num_left_out = 0;
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    CHECK_EQ(Describe(outcomes[rank].ending), "");
    CHECK_TRUE(outcomes[rank].outputs == outcomes[0].outputs);  // bit by bit
    CHECK_EQ(outcomes[rank].share, outcomes[0].share);
    for (size_t tensor = 0; tensor < inputs[rank].size(); ++tensor) {
      for (size_t i = 0; i < inputs[rank][tensor].size(); ++i) {
        const double left_out = outcomes[rank].left_out[tensor][i];
        CHECK_TRUE(left_out == 0 || left_out == inputs[rank][tensor][i]);
        num_left_out += left_out != 0;
        ++num_elements;
      }
    }
  }
  if (num_elements > 0) {
    CHECK_EQ(outcomes[0].share, static_cast<double>(num_left_out) / num_elements);
  }
  CHECK_AT_MOST(outcomes[0].share, call.max_left_out);
  int num_compared = 0;
  for (size_t tensor = 0; tensor < inputs[0].size(); ++tensor) {
    bool is_told = true;
    for (size_t i = 0; i < inputs[0][tensor].size(); ++i) {
      // Adasum's weights are those of parts, which are not told of a result that is left out.
      is_told &= call.reduction != "adasum" || late == Phase::kResults ||
                 !IsResultLeftOut(outcomes, tensor, i);
    }
    if (!is_told) continue;
    const std::vector<double> expected = Expected(call.reduction, inputs, outcomes, tensor, late);
    CHECK_AT_MOST(test::Distance(outcomes[0].outputs[tensor], expected),
                  1e-12 * (1 + test::Norm(expected)));
    ++num_compared;
  }
  return num_compared;
}

LateWire::Clock::duration NotLate(int, int, int64_t) { return 0ms; }

TEST(NothingIsLate) {
  for (int size : {1, 2, 3, 4, 5}) {
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

// Which of the messages of a call a rank sends: first parts to owners, then results.
class Phases {
 public:
  explicit Phases(int size, const std::vector<int64_t>& counts = kCounts) {
    int64_t num_elements = 0;
    for (int64_t count : counts) num_elements += count;
    const DealtChunks chunks(num_elements, 8, size);
    for (int rank = 0; rank < size; ++rank) {
      int64_t num_owned = 0;
      for (int64_t chunk = rank; chunk < chunks.size(); chunk += size) ++num_owned;
      num_parts_.push_back(chunks.size() - num_owned);
      num_messages_.push_back(num_parts_.back() + num_owned * (size - 1));
    }
  }
  // Where all messages are sent, in all calls.
  Phase Of(int rank, int64_t number) const {
    return number % num_messages_[rank] < num_parts_[rank] ? Phase::kParts : Phase::kResults;
  }

 private:
  std::vector<int64_t> num_parts_, num_messages_;
};

// A message is late or not by its number alone, the same in each run.
bool Draw(int from, int64_t number, unsigned percent) {
  std::minstd_rand random(static_cast<unsigned>(from * 7919 + number * 31 + 17));
  random.discard(3);
  return random() % 100 < percent;
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
    CHECK_EQ(Check(call, inputs, outcomes, Phase::kResults), static_cast<int>(kCounts.size()));
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

// A queue of eight messages that don't come holds back the rest: they are never sent, and nothing
// waits for them afterwards.
TEST(WhatHasNotBegunIsNotSent) {
  const std::vector<int64_t> counts = {512 * 60};
  std::atomic<bool> are_held{true};
  const Phases phases(2, counts);
  LateRanks ranks(2, [&](int from, int, int64_t) -> LateWire::Clock::duration {
    return are_held && from == 0 ? LateWire::kNever : 0ms;
  });
  Call call{"sum", 20, 1};
  const std::vector<Vectors> inputs = RandomInputs(2, 3, counts);
  const std::vector<Outcome> outcomes = ReduceOnAll(ranks, inputs, call);
  Check(call, inputs, outcomes);
  // Of rank 1 all 60, unless the machine is loaded; of rank 0 eight parts and eight results.
  CHECK_TRUE(ranks.num_started() <= 60 + 16);
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
