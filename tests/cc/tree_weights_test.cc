// The weights of a whole tree from the inner products of its leaves, against the tree itself.

#include "cc/algorithms/tree_weights.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/cc/check.h"
#include "tests/cc/tree.h"

namespace adasum {
namespace {

using test::Distance;
using test::Norm;
using test::ReduceTree;
using test::Scope;

using Leaves = std::vector<std::vector<double>>;

Leaves RandomLeaves(int n, int64_t count, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Leaves leaves(n, std::vector<double>(count));
  for (auto& leaf : leaves) {
    for (double& value : leaf) value = normal(random);
  }
  return leaves;
}

struct Outcome {
  bool is_told;
  std::vector<double> result, weights;
};

Outcome Weigh(const Leaves& leaves, DType dtype) {
  const int n = static_cast<int>(leaves.size());
  std::vector<double> gram(GramSize(n)), weights(n);
  for (int i = 0; i < n; ++i) {
    for (int j = i; j < n; ++j) {
      for (size_t e = 0; e < leaves[0].size(); ++e) {
        gram[GramIndex(n, i, j)] += leaves[i][e] * leaves[j][e];
      }
    }
  }
  Outcome outcome{
      WeightsOfTree(FindReduction("adasum"), MakeTree(n), n, dtype, gram.data(), weights.data()),
      std::vector<double>(leaves[0].size()), weights};
  for (int i = 0; i < n; ++i) {
    for (size_t e = 0; e < leaves[0].size(); ++e) outcome.result[e] += weights[i] * leaves[i][e];
  }
  return outcome;
}

double Scale(const Leaves& leaves, const std::vector<double>& expected) {
  double scale = Norm(expected);
  for (const auto& leaf : leaves) scale = std::fmax(scale, Norm(leaf));
  return scale;
}

void CheckTold(const Leaves& leaves, double tolerance, DType dtype = DType::kFloat64) {
  const Outcome outcome = Weigh(leaves, dtype);
  CHECK_TRUE(outcome.is_told);
  const std::vector<double> expected = ReduceTree("adasum", DType::kFloat64, leaves);
  CHECK_AT_MOST(Distance(outcome.result, expected), tolerance * Scale(leaves, expected));
}

TEST(RandomVectors) {
  for (int n = 2; n <= kMostOperands; ++n) {
    for (int64_t count : {1, 2, 1000}) {
      for (double scale : {1e-100, 1.0, 1e100}) {
        Scope scope(std::to_string(n) + " leaves of " + std::to_string(count));
        Leaves leaves = RandomLeaves(n, count, 7);
        for (auto& leaf : leaves) {
          for (double& value : leaf) value = scale * (2 + value);  // nothing cancels
        }
        CheckTold(leaves, 1e-14);
      }
    }
  }
}

TEST(ZerosAreTheIdentity) {
  for (int n = 2; n <= kMostOperands; ++n) {
    for (int zeros = 0; zeros < 1 << n; ++zeros) {
      Scope scope(std::to_string(n) + " leaves, zeros " + std::to_string(zeros));
      Leaves leaves = RandomLeaves(n, 200, n);
      for (int i = 0; i < n; ++i) {
        if (zeros >> i & 1) leaves[i].assign(200, 0.0);
      }
      CheckTold(leaves, 1e-14);
    }
  }
}

// From what cancels to nothing to what hardly does: told only where it is right.
TEST(WhatCancels) {
  struct Bounds {
    DType dtype;
    double tolerance, told_from;
  };
  for (Bounds bounds : {Bounds{DType::kFloat64, 1e-14, 0.8}, Bounds{DType::kFloat32, 1e-14, 0.8},
                        Bounds{DType::kFloat16, 1e-10, 0.1}}) {
    for (int n = 3; n <= kMostOperands; ++n) {
      int num_told = 0, num_untold = 0;
      for (double rest : {0.0, 1e-15, 1e-12, 1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 0.8, 1.0}) {
        Scope scope(std::to_string(n) + " leaves, what is left: " + std::to_string(rest));
        Leaves leaves = RandomLeaves(n, 300, n);
        const Leaves others = RandomLeaves(1, 300, 99);
        const int partner = MakeTree(n)[0].right;  // the leaf that the first one meets first
        for (size_t e = 0; e < 300; ++e) {
          leaves[partner][e] = rest * others[0][e] - leaves[0][e];
        }
        const Outcome outcome = Weigh(leaves, bounds.dtype);
        ++(outcome.is_told ? num_told : num_untold);
        if (rest >= bounds.told_from) CHECK_TRUE(outcome.is_told);
        if (rest <= 1e-5) CHECK_TRUE(!outcome.is_told);
        if (!outcome.is_told) continue;
        const std::vector<double> expected = ReduceTree("adasum", DType::kFloat64, leaves);
        CHECK_AT_MOST(Distance(outcome.result, expected),
                      bounds.tolerance * Scale(leaves, expected));
      }
      CHECK_TRUE(num_told > 0 && num_untold > 0);
    }
  }
}

// Two vectors need nothing but their own moments, whatever these are.
TEST(TwoAreAlwaysTold) {
  for (double value : {0.0, 1e-300, 1e-150, 1.0, 1e150}) {
    CheckTold({{value, value}, {-value, -value}}, 1e-15);
  }
}

TEST(NothingIsMadeUpBeyondTheDoubles) {
  for (int n = 3; n <= kMostOperands; ++n) {
    for (double special : {double{NAN}, double{INFINITY}, 1e200, 1e-150}) {
      Leaves leaves = RandomLeaves(n, 10, n);
      for (auto& leaf : leaves) leaf.assign(10, special);
      CHECK_TRUE(!Weigh(leaves, DType::kFloat64).is_told);
    }
    Leaves leaves = RandomLeaves(n, 10, n);
    leaves[n - 1][3] = NAN;
    CHECK_TRUE(!Weigh(leaves, DType::kFloat64).is_told);
  }
}

// A vector next to nothing may get a weight beyond float32.
TEST(SteepWeightsAreForFloat64) {
  Leaves leaves = RandomLeaves(4, 100, 1);
  for (size_t e = 0; e < 100; ++e) leaves[1][e] = 1e-35 * (leaves[0][e] + leaves[1][e]);
  CHECK_TRUE(!Weigh(leaves, DType::kFloat32).is_told);
  CheckTold(leaves, 1e-13);
}

// Leaves of unlike norms: told only with weights that the dtype's arithmetic holds, and right.
TEST(UnlikeNorms) {
  struct Case {
    DType dtype;
    double small, large, most_weight;
  };
  for (const Case& each :
       {Case{DType::kFloat32, 1e-30, 1e30, 1e30}, Case{DType::kBFloat16, 1e-38, 1e35, 1e30},
        Case{DType::kFloat16, 1e-6, 1e3, 1e30}, Case{DType::kFloat64, 1e-150, 1e150, 1e308}}) {
    for (int n = 2; n <= 5; ++n) {
      for (int small = 1; small < (1 << n) - 1; ++small) {
        Scope scope(std::string(DTypeName(each.dtype)) + ", small ones " + std::to_string(small) +
                    " of " + std::to_string(n));
        Leaves leaves = RandomLeaves(n, 100, n);
        for (int i = 0; i < n; ++i) {
          for (double& value : leaves[i]) value *= (small >> i & 1) != 0 ? each.small : each.large;
        }
        const Outcome outcome = Weigh(leaves, each.dtype);
        if (!outcome.is_told) continue;
        const std::vector<double> expected = ReduceTree("adasum", DType::kFloat64, leaves);
        CHECK_AT_MOST(Distance(outcome.result, expected), 1e-10 * Scale(leaves, expected));
        for (double weight : outcome.weights) CHECK_AT_MOST(std::fabs(weight), each.most_weight);
      }
    }
  }
}

// Scalars cancel in one sum of many. What is told has no terms beyond what its dtype rounds well.
TEST(TermsAreNoLargerThanTheyNeedBe) {
  for (int n = 3; n <= kMostOperands; ++n) {
    int num_told = 0;
    for (int seed = 0; seed < 1000; ++seed) {
      const Leaves leaves = RandomLeaves(n, 1, seed);
      double scale = 0;
      for (const auto& leaf : leaves) scale = std::fmax(scale, std::fabs(leaf[0]));
      std::vector<double> gram(GramSize(n)), weights(n);
      for (int i = 0; i < n; ++i) {
        for (int j = i; j < n; ++j) gram[GramIndex(n, i, j)] = leaves[i][0] * leaves[j][0];
      }
      if (!WeightsOfTree(FindReduction("adasum"), MakeTree(n), n, DType::kFloat32, gram.data(),
                         weights.data())) {
        continue;
      }
      ++num_told;
      for (int i = 0; i < n; ++i) {
        CHECK_AT_MOST(std::fabs(weights[i] * leaves[i][0]), std::sqrt(4.0 * n) * scale);
      }
    }
    CHECK_TRUE(num_told > 50);
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
