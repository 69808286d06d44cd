// Ranks that work on several cores each have the bits of ranks with one, whichever way the tensors
// take between them.

#include <atomic>
#include <cstring>
#include <optional>
#include <string>

#include "cc/algorithms/tiles.h"
#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/arithmetic/helper_threads.h"
#include "cc/core/dtype.h"
#include "cc/core/error.h"
#include "tests/cc/check.h"
#include "tests/cc/elements.h"
#include "tests/cc/reduced_leaves.h"
#include "tests/cc/worlds.h"

namespace adasum {
namespace {

using test::InArena;
using test::Leaves;
using test::Outcome;
using test::Outputs;
using test::RandomLeaves;
using test::ReduceOnAllRanks;
using test::Scope;
using test::Wire;

// Parts of many tiles, and of one; tensors that end within a tile.
const std::vector<int64_t> kCounts = {300'007, 0, 3, 50'001, 8192, 1};

void CheckSameBits(const Leaves& a, const Leaves& b) {
  for (size_t rank = 0; rank < a.size(); ++rank) {
    for (size_t i = 0; i < kCounts.size(); ++i) {
      CHECK_EQ(std::memcmp(a[rank][i].bytes(), b[rank][i].bytes(), a[rank][i].num_bytes()), 0);
    }
  }
}

void CheckWire(Wire wire) {
  std::optional<InArena> in_arena;
  if (wire == Wire::kSharedTensors) in_arena.emplace();
  for (const char* reduction : {"sum", "mean", "min", "max", "product", "adasum"}) {
    for (int size = 2; size <= 5; ++size) {
      for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        Scope scope(std::string(reduction) + ", " + std::to_string(size) + " ranks, " +
                    DTypeName(dtype));
        Leaves inputs = RandomLeaves(size, dtype, kCounts);
        const Outcome one = ReduceOnAllRanks(wire, reduction, inputs);
        for (int cores : {2, 5}) {
          const Outcome several =
              ReduceOnAllRanks(wire, reduction, inputs, Outputs::kApart, nullptr, false, cores);
          CheckSameBits(several.outputs, one.outputs);
          Leaves in_place(inputs);
          ReduceOnAllRanks(wire, reduction, in_place, Outputs::kInPlace, nullptr, false, cores);
          CheckSameBits(in_place, one.outputs);
        }
      }
    }
  }
}

// Behind a tile that fails the others are worked on, and find room.
TEST(EveryTileMayFail) {
  CpuArithmetic of_core;
  HelperThreads helpers;
  constexpr int kCores = 3;
  ParallelArithmetic arithmetic(&of_core, kCores, helpers.Lend(kCores - 1));
  char rooms[kCores];
  std::atomic<int> num_tiles{0};
  try {
    ForEachTile({0, 100}, 1, arithmetic, rooms, 1, [&](Range, char* room, Arithmetic&) {
      CHECK_TRUE(room >= rooms && room < rooms + kCores);
      ++num_tiles;
      throw Error(ErrorCode::kInternal, "a tile");
    });
    test::Fail(__FILE__, __LINE__, "expected an error");
  } catch (const Error& error) {
    CHECK_EQ(std::string(error.what()), "a tile");
  }
  CHECK_EQ(num_tiles.load(), 100);
}

TEST(TensorsThatAllReach) { CheckWire(Wire::kSharedTensors); }
TEST(TensorsThatAllCopy) { CheckWire(Wire::kCrossMemory); }
TEST(PackedTensors) { CheckWire(Wire::kSharedMemory); }
TEST(OverANetwork) { CheckWire(Wire::kNetwork); }

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
