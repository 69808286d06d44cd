// The traversal: transports x worlds x sizes x reductions x dtypes, against the tree in float64.

#include "cc/reductions/halving_doubling.h"

#include <cmath>
#include <cstring>
#include <random>

#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/core/error.h"
#include "cc/core/schedule.h"
#include "tests/cc/check.h"
#include "tests/cc/counting_transport.h"
#include "tests/cc/elements.h"
#include "tests/cc/tree.h"
#include "tests/cc/worlds.h"

namespace adasum {
namespace {

using test::CountingTransport;
using test::Elements;
using test::ForEachRank;
using test::kDTypes;
using test::kFloats;
using test::kWires;
using test::Scope;
using test::Wire;
using test::World;

constexpr int kSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16};
// Each wire moves the same bytes, so that all sizes for one of them will do.
std::vector<int> SizesOf(Wire wire) {
  if (wire == Wire::kThreads) return {std::begin(kSizes), std::end(kSizes)};
  return {2, 3, 5, 8};
}

constexpr int64_t kCounts[] = {0, 1, 2, 63, 64, 65, 1000};
const char* const kReductions[] = {"adasum", "sum", "mean"};

// tensors[leaf][variable]
using Leaves = std::vector<std::vector<Elements>>;

Leaves RandomLeaves(int size, DType dtype, const std::vector<int64_t>& counts) {
  std::mt19937 random(size * 1000 + static_cast<int>(dtype));
  std::normal_distribution<double> normal;
  Leaves leaves(size);
  for (auto& leaf : leaves) {
    for (int64_t count : counts) {
      std::vector<double> values(count);
      for (double& value : values) {
        value = IsFloating(dtype)       ? normal(random)
                : dtype == DType::kBool ? random() % 3 > 0
                                        : static_cast<int>(random() % 2001) - 1000;
      }
      leaf.emplace_back(dtype, values);
    }
  }
  return leaves;
}

Leaves EmptyLeaves(const Leaves& like) {
  Leaves leaves(like.size());
  for (size_t leaf = 0; leaf < like.size(); ++leaf) {
    for (const Elements& tensor : like[leaf])
      leaves[leaf].emplace_back(tensor.dtype(), tensor.size());
  }
  return leaves;
}

enum class Outputs { kApart, kInPlace, kFirstRankOnly };

struct Outcome {
  Leaves outputs;
  std::vector<int64_t> bytes_sent;
};

// The traversal on every rank of a new world. In place, the inputs are returned in `outputs` as
// well.
Outcome Run(Wire wire, const char* reduction, Leaves& inputs, Outputs where = Outputs::kApart) {
  World world(wire, static_cast<int>(inputs.size()));
  Outcome outcome{EmptyLeaves(inputs), std::vector<int64_t>(inputs.size())};
  std::vector<int64_t> counts;
  for (const Elements& tensor : inputs[0]) counts.push_back(tensor.size());
  const Segments segments(counts);
  // Large results past the caches, as the communicator does.
  CpuArithmetic arithmetic(ChooseCpuKernels(), segments.num_elements() > 100000);
  std::vector<LeafScratch> scratch(inputs.size());
  ForEachRank(world.size(), [&](int rank) {
    std::vector<const void*> in;
    std::vector<void*> out;
    for (Elements& tensor : inputs[rank]) {
      in.push_back(tensor.size() == 0 ? nullptr : tensor.bytes());
    }
    Leaves& outputs = where == Outputs::kInPlace ? inputs : outcome.outputs;
    for (Elements& tensor : outputs[rank]) out.push_back(tensor.bytes());
    if (where == Outputs::kFirstRankOnly && rank > 0) out.clear();
    CountingTransport transport(&world.transport(rank));
    try {
      HalvingDoubling(FindReduction(reduction), {inputs[rank][0].dtype(), segments, in, out},
                      transport, arithmetic, scratch[rank]);
    } catch (const Error& error) {
      test::Fail(__FILE__, __LINE__, error.what());
    }
    outcome.bytes_sent[rank] = transport.num_bytes;
  });
  return outcome;
}

// L2, relative to the larger of the result and the largest input: where inputs cancel (a scalar
// and its negative) the result may be as small as the rounding of the storage.
double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 2e-3;
    case DType::kBFloat16:
      return 1.6e-2;
    case DType::kFloat32:
      return 1e-6;
    case DType::kFloat64:
      return 1e-13;
    default:
      return 0;
  }
}

void CheckAgainstTree(const char* reduction, const Leaves& inputs, const Leaves& outputs) {
  for (size_t variable = 0; variable < inputs[0].size(); ++variable) {
    DType dtype = inputs[0][variable].dtype();
    std::vector<std::vector<double>> values;
    double scale = 0;
    for (const auto& leaf : inputs) {
      values.push_back(leaf[variable].Values());
      scale = std::fmax(scale, test::Norm(values.back()));
    }
    std::vector<double> expected = test::ReduceTree(reduction, dtype, values);
    scale = std::fmax(scale, test::Norm(expected));
    CHECK_AT_MOST(test::Distance(outputs[0][variable].Values(), expected),
                  Tolerance(dtype) * scale);
  }
}

void CheckAlike(const Leaves& leaves) {
  for (size_t rank = 0; rank < leaves.size(); ++rank) {
    for (size_t variable = 0; variable < leaves[0].size(); ++variable) {
      const Elements& mine = leaves[rank][variable];
      CHECK_TRUE(mine.SurroundingsAreIntact());
      CHECK_EQ(std::memcmp(mine.bytes(), leaves[0][variable].bytes(), mine.num_bytes()), 0);
    }
  }
}

void CheckInputsUntouched(const Leaves& inputs, const Leaves& before) {
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    for (size_t variable = 0; variable < inputs[0].size(); ++variable) {
      const Elements& now = inputs[rank][variable];
      CHECK_EQ(std::memcmp(now.bytes(), before[rank][variable].bytes(), now.num_bytes()), 0);
    }
  }
}

void CheckWorld(Wire wire, int size, const char* reduction, DType dtype,
                const std::vector<int64_t>& counts) {
  Scope scope(std::string(test::WireName(wire)) + ", " + std::to_string(size) + " ranks, " +
              reduction + ", " + DTypeName(dtype) + ", " + std::to_string(counts.size()) +
              " tensors, the first of " + std::to_string(counts[0]));
  Leaves inputs = RandomLeaves(size, dtype, counts);
  const Leaves before(inputs);
  Outcome outcome = Run(wire, reduction, inputs);
  CheckAgainstTree(reduction, inputs, outcome.outputs);
  CheckAlike(outcome.outputs);
  CheckInputsUntouched(inputs, before);
}

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

TEST(LargeVectorsInSeveralTensors) {
  for (Wire wire : kWires) {
    for (int size : {2, 3, 5, 8}) {
      for (const char* reduction : kReductions) {
        CheckWorld(wire, size, reduction, DType::kFloat32, {100000, 7, 33333, 0, 70000});
      }
    }
  }
}

// Halves of several steps, more than the places for results that two leaves have.
TEST(VectorsOfManySteps) {
  for (Wire wire : kWires) {
    for (int size : {2, 3}) {
      for (const std::vector<int64_t>& counts :
           {std::vector<int64_t>{700001}, std::vector<int64_t>{300000, 5, 400000}}) {
        CheckWorld(wire, size, "adasum", DType::kFloat32, counts);
        CheckWorld(wire, size, "mean", DType::kFloat16, counts);
        Leaves inputs = RandomLeaves(size, DType::kFloat32, counts);
        const Leaves before(inputs);
        Run(wire, "mean", inputs, Outputs::kInPlace);
        CheckAgainstTree("mean", before, inputs);
        CheckAlike(inputs);
      }
    }
  }
}

TEST(ResultOnlyWhereItIsAskedFor) {
  for (Wire wire : kWires) {
    for (int size : {2, 3, 5, 8}) {
      for (const std::vector<int64_t>& counts :
           {std::vector<int64_t>{1000}, std::vector<int64_t>{300, 0, 700}}) {
        Leaves inputs = RandomLeaves(size, DType::kFloat64, counts);
        Outcome outcome = Run(wire, "adasum", inputs, Outputs::kFirstRankOnly);
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
        Run(wire, "adasum", inputs, Outputs::kInPlace);
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
      Outcome first = Run(wire, "adasum", inputs), second = Run(wire, "adasum", inputs);
      for (int rank = 0; rank < size; ++rank) second.outputs[rank].swap(first.outputs[0]);
      CheckAlike(second.outputs);
    }
  }
}

TEST(SendsTheBytesItSays) {
  for (int size : kSizes) {
    for (int64_t count : {1, 64, 1000}) {
      const std::vector<int64_t> counts = {count, 0, 17};
      for (const char* reduction : kReductions) {
        Scope scope(std::to_string(size) + " ranks, " + reduction);
        Leaves inputs = RandomLeaves(size, DType::kFloat32, counts);
        Outcome outcome = Run(Wire::kThreads, reduction, inputs);
        bool has_moments = std::string(reduction) == "adasum";
        for (int rank = 0; rank < size; ++rank) {
          CHECK_EQ(outcome.bytes_sent[rank],
                   BytesSent(rank, size, count + 17, 4, has_moments ? 24 * counts.size() : 0));
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
             "Expected a reduction among adasum, mean, sum. Received: median");
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
