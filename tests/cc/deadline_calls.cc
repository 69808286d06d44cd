#include "tests/cc/deadline_calls.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "cc/collectives/deadline_allreduce.h"
#include "cc/collectives/dealt_chunks.h"
#include "tests/cc/check.h"
#include "tests/cc/tree.h"

namespace adasum {
namespace test {
namespace {

std::vector<void*> Addresses(Vectors& vectors) {
  std::vector<void*> addresses;
  for (std::vector<double>& each : vectors) {
    addresses.push_back(each.empty() ? nullptr : each.data());
  }
  return addresses;
}

// Whether all ranks have left out an element. Of parts that can't be: the owner has its own.
bool IsResultLeftOut(const std::vector<Outcome>& outcomes, size_t tensor, size_t i) {
  return std::all_of(outcomes.begin(), outcomes.end(),
                     [&](const Outcome& outcome) { return outcome.left_out[tensor][i] != 0; });
}

// See Check.
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
  std::vector<double> expected = ReduceTree(reduction, DType::kFloat64, leaves);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (IsResultLeftOut(outcomes, tensor, i)) expected[i] = 0;
  }
  return expected;
}

}  // namespace

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
  Pending pending;
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

std::vector<Vectors> RandomInputs(int size, unsigned seed, const std::vector<int64_t>& counts) {
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

int Check(const Call& call, const std::vector<Vectors>& inputs,
          const std::vector<Outcome>& outcomes, Phase late) {
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
    if (!is_told || inputs[0][tensor].empty()) continue;
    const std::vector<double> expected = Expected(call.reduction, inputs, outcomes, tensor, late);
    CHECK_AT_MOST(Distance(outcomes[0].outputs[tensor], expected), 1e-12 * (1 + Norm(expected)));
    ++num_compared;
  }
  return num_compared;
}

Phases::Phases(int size, const std::vector<int64_t>& counts) {
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

bool Draw(int from, int64_t number, unsigned percent) {
  std::minstd_rand random(static_cast<unsigned>(from * 7919 + number * 31 + 17));
  random.discard(3);
  return random() % 100 < percent;
}

}  // namespace test
}  // namespace adasum
