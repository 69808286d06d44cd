// The squared norms of the result and of the leaves, which an allreduce finds on its way: against
// the tree in float64, on every wire and by every algorithm; and what it costs to ask.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "cc/algorithms/reduce_leaves.h"
#include "cc/algorithms/schedule.h"
#include "tests/cc/check.h"
#include "tests/cc/elements.h"
#include "tests/cc/reduced_leaves.h"
#include "tests/cc/tree.h"

namespace adasum {
namespace {

using test::kWires;
using test::Leaves;
using test::Outcome;
using test::Outputs;
using test::RandomLeaves;
using test::ReduceOnAllRanks;
using test::Scope;
using test::Wire;
using test::WireName;

// Of the sum of the leaves' squared norms, or of the result's if that is larger.
double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 4e-3;
    case DType::kBFloat16:
      return 3e-2;
    case DType::kFloat32:
      return 1e-6;
    default:
      return 1e-12;
  }
}

double Square(double value) { return value * value; }

SquaredNorms Expected(const Leaves& inputs, size_t variable) {
  SquaredNorms norms{0, 0};
  std::vector<std::vector<double>> values;
  for (const auto& leaf : inputs) {
    values.push_back(leaf[variable].Values());
    norms.leaves += Square(test::Norm(values.back()));
  }
  norms.result =
      Square(test::Norm(test::ReduceTree("adasum", inputs[0][variable].dtype(), values)));
  return norms;
}

void CheckNorms(const Leaves& inputs, const Outcome& outcome) {
  for (size_t variable = 0; variable < inputs[0].size(); ++variable) {
    const SquaredNorms expected = Expected(inputs, variable);
    const SquaredNorms& found = outcome.norms[0][variable];
    const double most =
        Tolerance(inputs[0][0].dtype()) * std::fmax(expected.leaves, expected.result);
    CHECK_AT_MOST(std::fabs(found.result - expected.result), most);
    CHECK_AT_MOST(std::fabs(found.leaves - expected.leaves), most);
    for (const auto& of_rank : outcome.norms) {
      CHECK_EQ(std::memcmp(&of_rank[variable], &found, sizeof(found)), 0);
    }
  }
}

void CheckSameResults(const Outcome& one, const Outcome& other) {
  for (size_t variable = 0; variable < one.outputs[0].size(); ++variable) {
    const auto& mine = one.outputs[0][variable];
    CHECK_EQ(std::memcmp(mine.bytes(), other.outputs[0][variable].bytes(), mine.num_bytes()), 0);
  }
}

// Long vectors, so that a direct allreduce finds its weights. Recursive halving sends results from
// where they lie: a leaf that has folded away, or its partner, has a message for the norms alone.
// Nothing else goes in a message of its own.
void CheckMessages(const Outcome& plain, const Outcome& measured) {
  const int size = static_cast<int>(plain.outputs.size());
  for (int rank = 0; rank < size; ++rank) {
    const bool gives_back = MakeSchedule(rank, size, 1).fold == Fold::kTakes;
    const bool halves = plain.algorithm == Algorithm::kRecursiveHalving;
    CHECK_EQ(measured.num_messages[rank] - plain.num_messages[rank],
             int64_t{gives_back && halves && plain.num_messages[rank] > 0});
    if (plain.algorithm == Algorithm::kDirect || plain.algorithm == Algorithm::kNetworkDirect) {
      CHECK_EQ(measured.bytes_sent[rank], plain.bytes_sent[rank]);
    }
  }
}

void CheckMeasured(Wire wire, int size, DType dtype, const std::vector<int64_t>& counts) {
  Scope scope(std::string(WireName(wire)) + ", " + std::to_string(size) + " ranks, " +
              DTypeName(dtype) + ", " + std::to_string(counts.size()) + " tensors, the first of " +
              std::to_string(counts[0]));
  Leaves inputs = RandomLeaves(size, dtype, counts);
  const Outcome plain = ReduceOnAllRanks(wire, "adasum", inputs);
  const Outcome measured = ReduceOnAllRanks(wire, "adasum", inputs, Outputs::kApart, nullptr, true);
  CheckNorms(inputs, measured);
  CheckSameResults(plain, measured);
  CheckMessages(plain, measured);
}

TEST(NormsOfEveryWorld) {
  for (Wire wire : kWires) {
    for (int size = 1; size <= 9; ++size) {
      for (DType dtype : test::kFloats) {
        for (const std::vector<int64_t>& counts :
             {std::vector<int64_t>{0}, {40}, {5, 0, 300}, {5000}, {0, 4000, 64, 40, 65, 1001}}) {
          CheckMeasured(wire, size, dtype, counts);
        }
      }
    }
  }
}

TEST(NormsOfManyRanks) {
  for (int size : {13, 16}) {
    CheckMeasured(Wire::kThreads, size, DType::kFloat32, {7, 0, 100});
    CheckMeasured(Wire::kThreads, size, DType::kFloat32, {700, 0, 1000});
  }
}

// Longer than a chunk, of which several are on their way.
TEST(NormsOfLongVectors) {
  for (Wire wire : kWires) {
    for (int size : {2, 3, 4}) CheckMeasured(wire, size, DType::kFloat32, {700000, 3, 90001});
  }
}

Leaves Filled(const std::vector<double>& values, int64_t count) {
  Leaves leaves(values.size());
  for (size_t leaf = 0; leaf < values.size(); ++leaf) {
    leaves[leaf].emplace_back(DType::kFloat64, std::vector<double>(count, values[leaf]));
  }
  return leaves;
}

// Orthogonal leaves keep all, equal ones a part in N; what cancels leaves nothing, and no less.
TEST(KnownRatios) {
  for (Wire wire : kWires) {
    for (int64_t count : {8, 2000}) {
      for (int size : {2, 4, 8}) {
        Leaves equal = Filled(std::vector<double>(size, 2), count);
        const Outcome of_equal =
            ReduceOnAllRanks(wire, "adasum", equal, Outputs::kApart, nullptr, true);
        const SquaredNorms& norms = of_equal.norms[0][0];
        CHECK_AT_MOST(std::fabs(norms.result / norms.leaves - 1.0 / size), 1e-14);
      }
      Leaves opposite = Filled({1, -1}, count);
      const Outcome none =
          ReduceOnAllRanks(wire, "adasum", opposite, Outputs::kApart, nullptr, true);
      CHECK_EQ(none.norms[0][0].result, 0.0);
      CHECK_EQ(none.norms[0][0].leaves, 2.0 * count);
    }
  }
}

// A coefficient whose square is beyond the doubles, where no term is.
TEST(UnlikeNorms) {
  for (Wire wire : kWires) {
    for (int64_t count : {8, 2000}) {
      Leaves inputs = Filled({1e-150, 1e150}, count);
      CheckNorms(inputs, ReduceOnAllRanks(wire, "adasum", inputs, Outputs::kApart, nullptr, true));
    }
  }
}

TEST(OthersMeasureNothing) {
  for (Wire wire : kWires) {
    for (int64_t count : {40, 2000}) {
      for (const char* reduction : {"sum", "mean"}) {
        Leaves inputs = RandomLeaves(3, DType::kFloat32, {count});
        const Outcome outcome =
            ReduceOnAllRanks(wire, reduction, inputs, Outputs::kApart, nullptr, true);
        CHECK_TRUE(std::isnan(outcome.norms[0][0].result));
        CHECK_TRUE(std::isnan(outcome.norms[0][0].leaves));
      }
    }
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
