// Leaves of which each rank holds the same part of all: sums of products travel, and nothing else.

#include "cc/collectives/reduce_held.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/core/segments.h"
#include "cc/reductions/reduction.h"
#include "tests/cc/check.h"
#include "tests/cc/counting_transport.h"
#include "tests/cc/tree.h"
#include "tests/cc/worlds.h"

namespace adasum {
namespace {

using test::CountingTransport;
using test::Distance;
using test::ForEachRank;
using test::Norm;
using test::ReduceTree;
using test::Scope;
using test::Wire;
using test::World;

// values[leaf][segment][element]
using Values = std::vector<std::vector<std::vector<double>>>;

Values RandomValues(int num_leaves, const std::vector<int64_t>& counts) {
  std::mt19937 random(num_leaves);
  std::normal_distribution<double> normal;
  Values values(num_leaves);
  for (auto& leaf : values) {
    for (int64_t count : counts) {
      leaf.emplace_back(count);
      for (double& value : leaf.back()) value = normal(random);
    }
  }
  return values;
}

// Every rank's part of `count` elements: unlike ones, and rank 0 has none where there are others.
Range PartOf(int rank, int size, int64_t count) {
  const int64_t parts = static_cast<int64_t>(size) * (size - 1) / 2;
  if (size == 1) return {0, count};
  const int64_t begin = count * (static_cast<int64_t>(rank) * (rank - 1) / 2) / parts;
  return {rank == 0 ? 0 : begin, rank == 0 ? 0 : count * (rank * (rank + 1) / 2) / parts};
}

struct Outcome {
  std::vector<std::vector<double>> results;  // of each segment, joined over the ranks
  int64_t most_bytes = 0;                    // that a rank sent
};

Outcome Reduce(int size, const char* reduction, Values values) {
  World world(Wire::kCopies, size);
  Outcome outcome;
  for (const auto& segment : values[0]) outcome.results.emplace_back(segment.size());
  std::vector<int64_t> sent(size);
  ForEachRank(size, [&](int rank) {
    HeldLeaves held{DType::kFloat64, static_cast<int>(values.size()), {}};
    for (size_t s = 0; s < values[0].size(); ++s) {
      const Range part = PartOf(rank, size, static_cast<int64_t>(values[0][s].size()));
      held.segments.push_back({{}, nullptr, part.size()});
      held.segments.back().out = reinterpret_cast<char*>(outcome.results[s].data() + part.begin);
      for (auto& leaf : values) {
        held.segments.back().leaves.push_back(reinterpret_cast<char*>(leaf[s].data() + part.begin));
      }
    }
    CpuArithmetic arithmetic;
    CountingTransport counting(&world.transport(rank));
    ReduceHeld(held, FindReduction(reduction), counting, arithmetic);
    sent[rank] = counting.num_bytes;
  });
  outcome.most_bytes = *std::max_element(sent.begin(), sent.end());
  return outcome;
}

void CheckAgainstTree(const char* reduction, const Values& values, const Outcome& outcome) {
  for (size_t s = 0; s < values[0].size(); ++s) {
    Scope scope("segment " + std::to_string(s));
    std::vector<std::vector<double>> leaves;
    double scale = 0;
    for (const auto& leaf : values) {
      leaves.push_back(leaf[s]);
      scale = std::fmax(scale, Norm(leaf[s]));
    }
    const std::vector<double> wanted = ReduceTree(reduction, DType::kFloat64, leaves);
    scale = std::fmax(scale, Norm(wanted));
    CHECK_AT_MOST(Distance(outcome.results[s], wanted), 1e-13 * scale);
  }
}

TEST(TheResultIsThatOfTheWholeTree) {
  for (const char* reduction : {"adasum", "sum", "mean"}) {
    for (int size : {1, 2, 3, 4, 5}) {
      for (int num_leaves : {1, 2, 3, 5, 8, 9, 13}) {  // more than eight go through the tree
        Scope scope(std::string(reduction) + ", ranks " + std::to_string(size) + ", leaves " +
                    std::to_string(num_leaves));
        const Values values = RandomValues(num_leaves, {0, 1, 7, 300});
        CheckAgainstTree(reduction, values, Reduce(size, reduction, values));
      }
    }
  }
}

TEST(LeavesThatCancelGoThroughTheTree) {
  Values values = RandomValues(4, {50, 50});
  for (int leaf : {1, 3}) {
    for (size_t e = 0; e < 50; ++e) values[leaf][0][e] = -(1 + 1e-9) * values[leaf - 1][0][e];
  }
  for (int size : {1, 2, 3}) {
    Scope scope("ranks " + std::to_string(size));
    CheckAgainstTree("adasum", values, Reduce(size, "adasum", values));
  }
}

TEST(WhatIsSentHangsOnNoNumberOfElements) {
  const Outcome few = Reduce(3, "adasum", RandomValues(4, {10, 20}));
  const Outcome many = Reduce(3, "adasum", RandomValues(4, {1000, 20000}));
  CHECK_TRUE(few.most_bytes > 0);
  CHECK_EQ(many.most_bytes, few.most_bytes);
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
