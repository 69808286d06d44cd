// Tensors that all ranks reach where they lie: the results of the tree, whatever is copied, packed
// or given up on the way.

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/core/error.h"
#include "tests/cc/check.h"
#include "tests/cc/elements.h"
#include "tests/cc/reduced_leaves.h"
#include "tests/cc/worlds.h"

namespace adasum {
namespace {

using test::CheckAgainstTree;
using test::CheckAlike;
using test::CheckWorld;
using test::Elements;
using test::ForEachRank;
using test::InArena;
using test::kDTypes;
using test::kFloats;
using test::kReductions;
using test::Leaves;
using test::Outcome;
using test::Outputs;
using test::RandomLeaves;
using test::ReduceOnAllRanks;
using test::Scope;
using test::Set;
using test::TimesOut;
using test::Wire;
using test::World;

constexpr int kSizes[] = {2, 3, 4, 5, 8};

// Elements that take this much of any dtype but bool: a tensor that lies in the arena. Odd, so that
// parts begin anywhere.
int64_t LargeCount(DType dtype) { return (int64_t{80} << 10) / ElementBytes(dtype) + 13; }

template <typename DTypes>
void CheckProduct(const char* reduction, const DTypes& dtypes) {
  const InArena in_arena;
  for (int size : kSizes) {
    for (DType dtype : dtypes) {
      const int64_t large = LargeCount(dtype);
      CheckWorld(Wire::kSharedTensors, size, reduction, dtype, {large});
      CheckWorld(Wire::kSharedTensors, size, reduction, dtype, {large, 0, 3, large + 1, 100, 1});
    }
  }
}

TEST(AdasumOfEveryWorld) { CheckProduct("adasum", kFloats); }
TEST(SumOfEveryWorld) { CheckProduct("sum", kDTypes); }
TEST(MeanOfEveryWorld) { CheckProduct("mean", kDTypes); }

// How many tensors of peers the first leaf reached, of which all have the right results.
int64_t NumLocated(Leaves& inputs, const char* reduction, Outputs where) {
  const Leaves before(inputs);
  Outcome outcome = ReduceOnAllRanks(Wire::kSharedTensors, reduction, inputs, where);
  const Leaves& results = where == Outputs::kInPlace ? inputs : outcome.outputs;
  CheckAgainstTree(reduction, before, results);
  CheckAlike(results);
  return outcome.num_located[0];
}

TEST(ResultInPlaceOfTheInputs) {
  const InArena in_arena;
  for (int size : kSizes) {
    for (const char* reduction : kReductions) {
      const int64_t large = LargeCount(DType::kFloat32);
      Scope scope(std::to_string(size) + " ranks, " + reduction);
      Leaves inputs = RandomLeaves(size, DType::kFloat32, {large, 5, 4 * large, 0, 700});
      // Inputs and outputs of the two that are long enough.
      CHECK_EQ(NumLocated(inputs, reduction, Outputs::kInPlace), 4 * (size - 1));
    }
  }
}

// One rank alone has its tensors elsewhere: all ranks pack.
TEST(OneRankWithoutArena) {
  for (int size : kSizes) {
    for (int without = 0; without < size; without += 2) {
      Scope scope(std::to_string(size) + " ranks, rank " + std::to_string(without) + " without");
      const Leaves values = RandomLeaves(size, DType::kFloat32, {LargeCount(DType::kFloat32), 40});
      Leaves inputs;
      for (int rank = 0; rank < size; ++rank) {
        std::optional<InArena> in_arena;
        if (rank != without) in_arena.emplace();
        inputs.push_back(values[rank]);
      }
      const InArena in_arena;
      const Leaves before(inputs);
      ReduceOnAllRanks(Wire::kSharedTensors, "adasum", inputs, Outputs::kInPlace);
      CheckAgainstTree("adasum", before, inputs);
      CheckAlike(inputs);
    }
  }
}

// Mostly short tensors: they are packed as ever.
TEST(ManyShortTensors) {
  const InArena in_arena;
  std::vector<int64_t> counts(200, 1000);
  counts.push_back(LargeCount(DType::kFloat32));
  Leaves inputs = RandomLeaves(3, DType::kFloat32, counts);
  CHECK_EQ(NumLocated(inputs, "adasum", Outputs::kApart), 0);
}

// Moments must be taken on the way: nothing is written before that is known.
TEST(WhatCancelsOnTheWay) {
  const InArena in_arena;
  for (int size : {3, 4, 5, 8}) {
    for (Outputs where : {Outputs::kApart, Outputs::kInPlace}) {
      Scope scope(std::to_string(size) + " ranks");
      const int64_t large = LargeCount(DType::kFloat64);
      Leaves inputs = RandomLeaves(size, DType::kFloat64, {large, large});
      // The first two to meet, of which the right one becomes nearly the left one's opposite.
      const int left = 0, right = size == 3 ? 2 : (size == 5 ? 4 : 1);
      for (int64_t i = 0; i < large; ++i) {
        Set(DType::kFloat64, inputs[right][1].bytes(), i, 1e-2 - inputs[left][1][i]);
      }
      CHECK_TRUE(NumLocated(inputs, "adasum", where) > 0);
    }
  }
}

TEST(SquaredNormsAreThoseOfPackedTensors) {
  const InArena in_arena;
  for (int size : kSizes) {
    const int64_t large = LargeCount(DType::kFloat32);
    Leaves inputs = RandomLeaves(size, DType::kFloat32, {large, 30});
    const Outcome shared =
        ReduceOnAllRanks(Wire::kSharedTensors, "adasum", inputs, Outputs::kApart, nullptr, true);
    const Outcome packed =
        ReduceOnAllRanks(Wire::kSharedMemory, "adasum", inputs, Outputs::kApart, nullptr, true);
    for (int i = 0; i < 2; ++i) {
      for (int rank = 0; rank < size; ++rank) {
        const SquaredNorms &mine = shared.norms[rank][i], &other = packed.norms[0][i];
        CHECK_AT_MOST(std::fabs(mine.leaves - other.leaves), 1e-12 * other.leaves);
        CHECK_AT_MOST(std::fabs(mine.result - other.result), 1e-12 * other.leaves);
      }
    }
  }
}

// One allreduce of a tensor in the arena, on this rank of the world alone.
void ReduceOn(World& world, int rank, Elements& tensor) {
  const Segments segments({tensor.size()});
  const std::vector<const void*> in = {tensor.bytes()};
  const std::vector<void*> out = {tensor.bytes()};
  CpuArithmetic arithmetic(KernelsOf(WidestInstructionSet()), false);
  LeafScratch scratch;
  ReduceLeaves({tensor.dtype(), segments, in, out},
               {FindReduction("adasum"), world.transport(rank), arithmetic, scratch});
}

// What a peer says of where its tensors lie is not believed.
TEST(LocationsBeyondTheArenaAreRefused) {
  World world(Wire::kSharedTensors, 2);
  const int64_t num_bytes = Arena::OfProcess().memory().num_bytes;
  CHECK_TRUE(world.transport(0).Located(1, num_bytes - 64, 64) != nullptr);
  for (int64_t location : {int64_t{-1}, num_bytes - 63, num_bytes, int64_t{1} << 62, INT64_MAX}) {
    Scope scope(std::to_string(location));
    try {
      world.transport(0).Located(1, location, 64);
      test::Fail(__FILE__, __LINE__, "expected an Error");
    } catch (const Error& error) {
      CHECK_TRUE(error.code() == ErrorCode::kInternal);
    }
  }
}

// A rank that is given up may come back and write: its peers say that they have abandoned memory.
TEST(SilentRankLeavesTensorsAbandoned) {
  const InArena in_arena;
  World world(Wire::kSharedTensors, 2, 2);  // long for ranks that come late on a loaded machine
  std::vector<Elements> tensors(2, Elements(DType::kFloat32, LargeCount(DType::kFloat32)));
  ForEachRank(2, [&](int rank) { ReduceOn(world, rank, tensors[rank]); });
  CHECK_TRUE(!world.transport(0).HasAbandoned());
  CHECK_TRUE(TimesOut([&] { ReduceOn(world, 0, tensors[0]); }));
  CHECK_TRUE(world.transport(0).HasAbandoned());
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
