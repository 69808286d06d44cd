// All algorithms: transports x worlds x sizes x reductions x dtypes, against the tree in float64.

#include <vector>

#include "cc/algorithms/reduce_leaves.h"
#include "cc/core/error.h"
#include "tests/cc/check.h"
#include "tests/cc/elements.h"
#include "tests/cc/reduced_leaves.h"

namespace adasum {
namespace {

using test::CheckAgainstTree;
using test::CheckAlike;
using test::CheckWorld;
using test::Elements;
using test::kDTypes;
using test::kFloats;
using test::kReductions;
using test::kWires;
using test::Leaves;
using test::Outcome;
using test::Outputs;
using test::RandomLeaves;
using test::ReduceOnAllRanks;
using test::Scope;
using test::Wire;
using test::WireName;

constexpr int kSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16};
// Each wire moves the same bytes, so that all sizes for one of them will do.
std::vector<int> SizesOf(Wire wire) {
  if (wire == Wire::kThreads) return {std::begin(kSizes), std::end(kSizes)};
  return {2, 3, 4, 5, 8};
}

constexpr int64_t kCounts[] = {0, 1, 2, 63, 64, 65, 1000};

template <typename DTypes>
void CheckProduct(const char* reduction, const DTypes& dtypes) {
  for (Wire wire : kWires) {
    for (int size : SizesOf(wire)) {
      for (DType dtype : dtypes) {
        for (int64_t count : kCounts) {
          CheckWorld(wire, size, reduction, dtype, {count});
          CheckWorld(wire, size, reduction, dtype, {count, 0, 1, 0, count + 3, 5});
        }
      }
    }
  }
}

TEST(AdasumOfEveryWorld) { CheckProduct("adasum", kFloats); }
TEST(SumOfEveryWorld) { CheckProduct("sum", kDTypes); }
TEST(MeanOfEveryWorld) { CheckProduct("mean", kDTypes); }

TEST(ResultOnlyWhereItIsAskedFor) {
  for (Wire wire : kWires) {
    for (int size : {2, 3, 5, 8}) {
      for (const std::vector<int64_t>& counts :
           {std::vector<int64_t>{1000}, std::vector<int64_t>{300, 0, 700}}) {
        Leaves inputs = RandomLeaves(size, DType::kFloat64, counts);
        Outcome outcome = ReduceOnAllRanks(wire, "adasum", inputs, Outputs::kFirstRankOnly);
        CheckAgainstTree("adasum", inputs, outcome.outputs);
      }
    }
  }
}

TEST(ResultInPlaceOfTheInputs) {
  for (Wire wire : kWires) {
    for (int size : kSizes) {
      for (const std::vector<int64_t>& counts :
           {std::vector<int64_t>{1000}, std::vector<int64_t>{300, 0, 700, 1}}) {
        Leaves inputs = RandomLeaves(size, DType::kFloat32, counts);
        const Leaves before(inputs);
        ReduceOnAllRanks(wire, "adasum", inputs, Outputs::kInPlace);
        CheckAgainstTree("adasum", before, inputs);
        CheckAlike(inputs);
      }
    }
  }
}

TEST(RunToRunEqual) {
  for (Wire wire : kWires) {
    for (int size : {3, 8, 13}) {
      Leaves inputs = RandomLeaves(size, DType::kFloat32, {1000, 77});
      Outcome first = ReduceOnAllRanks(wire, "adasum", inputs),
              second = ReduceOnAllRanks(wire, "adasum", inputs);
      for (int rank = 0; rank < size; ++rank) second.outputs[rank].swap(first.outputs[0]);
      CheckAlike(second.outputs);
    }
  }
}

// Leaves of `scales[0]` where `small` has a bit, of `scales[1]` elsewhere.
Leaves UnlikeLeaves(int size, DType dtype, const std::vector<int64_t>& counts, int small,
                    const double* scales) {
  const Leaves ordinary = RandomLeaves(size, DType::kFloat64, counts);
  Leaves leaves(size);
  for (int leaf = 0; leaf < size; ++leaf) {
    for (const Elements& tensor : ordinary[leaf]) {
      std::vector<double> values = tensor.Values();
      for (double& value : values) value *= scales[(small >> leaf & 1) == 0];
      leaves[leaf].emplace_back(dtype, values);
    }
  }
  return leaves;
}

// Whatever meets whatever: nothing is beyond the arithmetic where the result is none.
TEST(UnlikeNorms) {
  struct Case {
    DType dtype;
    double scales[2];
  };
  const Case cases[] = {
      {DType::kFloat16, {2e-4, 2e3}},    {DType::kBFloat16, {1e-30, 1e30}},
      {DType::kBFloat16, {1e-38, 1e35}}, {DType::kFloat32, {1e-30, 1e30}},
      {DType::kFloat32, {1e-36, 1e35}},  {DType::kFloat64, {1e-150, 1e150}},
  };
  for (Wire wire : kWires) {
    for (int size = 2; size <= 5; ++size) {
      for (const Case& each : cases) {
        for (int small = 1; small < (1 << size) - 1; ++small) {
          for (const std::vector<int64_t>& counts : {std::vector<int64_t>{40}, {1500, 40}}) {
            Scope scope(std::string(WireName(wire)) + ", " + std::to_string(size) + " ranks, " +
                        DTypeName(each.dtype) + ", small ones " + std::to_string(small) + " of " +
                        test::Show(each.scales[0]));
            Leaves inputs = UnlikeLeaves(size, each.dtype, counts, small, each.scales);
            const Outcome outcome = ReduceOnAllRanks(wire, "adasum", inputs);
            CheckAgainstTree("adasum", inputs, outcome.outputs);
            CheckAlike(outcome.outputs);
          }
        }
      }
    }
  }
}

TEST(AdasumTakesFloatsOnly) {
  for (DType dtype : kDTypes) {
    CHECK_EQ(FindReduction("adasum").Supports(dtype), IsFloating(dtype));
    CHECK_TRUE(FindReduction("sum").Supports(dtype) && FindReduction("mean").Supports(dtype));
  }
}

TEST(UnknownReductionNamesTheKnown) {
  try {
    FindReduction("median");
    test::Fail(__FILE__, __LINE__, "expected an Error");
  } catch (const Error& error) {
    CHECK_TRUE(error.code() == ErrorCode::kInvalidArgument);
    CHECK_EQ(std::string(error.what()),
             "Expected a reduction among adasum, max, mean, min, product, sum. Received: median");
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
