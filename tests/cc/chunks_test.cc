// Vectors of so many chunks that slots are reused, by every algorithm.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cc/algorithms/halving.h"
#include "cc/algorithms/schedule.h"
#include "tests/cc/bytes_sent.h"
#include "tests/cc/check.h"
#include "tests/cc/reduced_leaves.h"

namespace adasum {
namespace {

using test::BytesSent;
using test::CheckAgainstTree;
using test::CheckAlike;
using test::CheckWorld;
using test::kReductions;
using test::kWires;
using test::Leaves;
using test::Outcome;
using test::Outputs;
using test::RandomLeaves;
using test::ReduceOnAllRanks;
using test::Scope;
using test::Wire;

// Holds a message up for up to 0.6 ms, each for another time.
std::function<void()> MakeDawdler() {
  auto turn = std::make_shared<std::atomic<uint64_t>>(1);
  return [turn] {
    uint64_t mixed = turn->fetch_add(1) * 0x9e3779b97f4a7c15u;
    std::this_thread::sleep_for(std::chrono::microseconds((mixed >> 60) * 40));
  };
}

TEST(LargeVectorsInSeveralTensors) {
  for (Wire wire : kWires) {
    for (int size : {2, 3, 5, 8}) {
      for (const char* reduction : kReductions) {
        CheckWorld(wire, size, reduction, DType::kFloat32, {100000, 7, 33333, 0, 70000});
      }
    }
  }
}

// Halves and parts of more chunks than there are slots.
TEST(VectorsOfManyChunks) {
  static_assert(1200000 / 2 * sizeof(float) > SlotRing::kSlots * kCachedBytes, "more chunks");
  for (Wire wire : kWires) {
    for (int size : {2, 3, 4, 5}) {
      for (const std::vector<int64_t>& counts :
           {std::vector<int64_t>{1200001}, std::vector<int64_t>{500000, 5, 700000}}) {
        CheckWorld(wire, size, "adasum", DType::kFloat32, counts);
        CheckWorld(wire, size, "mean", DType::kFloat16, counts);
        for (const char* reduction : {"mean", "adasum"}) {
          Leaves inputs = RandomLeaves(size, DType::kFloat32, counts);
          const Leaves before(inputs);
          ReduceOnAllRanks(wire, reduction, inputs, Outputs::kInPlace);
          CheckAgainstTree(reduction, before, inputs);
          CheckAlike(inputs);
        }
      }
    }
  }
}

// A peer that is late or early finds every slot as promised, also with more chunks than slots.
TEST(SlotsAreFreeWhenTheyAreReused) {
  const std::function<void()> dawdle = MakeDawdler();
  for (int size : {2, 3, 4, 5}) {
    for (const char* reduction : kReductions) {
      Scope scope(std::to_string(size) + " ranks, " + reduction);
      Leaves inputs = RandomLeaves(size, DType::kFloat32, {1500001});
      Outcome outcome =
          ReduceOnAllRanks(Wire::kSharedMemory, reduction, inputs, Outputs::kApart, dawdle);
      CheckAgainstTree(reduction, inputs, outcome.outputs);
      CheckAlike(outcome.outputs);
    }
  }
}

// One element too many for as many chunks on every rank: in the last one most hear of nobody but
// the first, and fill no slot.
TEST(LastChunksThatAreEmpty) {
  constexpr int64_t kChunk = kCachedBytes / sizeof(float), kChunks = 10;
  const std::function<void()> dawdle = MakeDawdler();
  for (int size : {2, 3, 4, 5}) {
    const int64_t count = size * kChunks * kChunk + 1;
    CHECK_TRUE(PartOf(0, size, count).size() > kChunks * kChunk);
    CHECK_TRUE(PartOf(size - 1, size, count).size() <= kChunks * kChunk);
    for (const char* reduction : {"adasum", "sum"}) {
      Scope scope(std::to_string(size) + " ranks, " + reduction);
      Leaves inputs = RandomLeaves(size, DType::kFloat32, {count});
      Outcome outcome =
          ReduceOnAllRanks(Wire::kSharedMemory, reduction, inputs, Outputs::kApart, dawdle);
      CheckAgainstTree(reduction, inputs, outcome.outputs);
      CheckAlike(outcome.outputs);
    }
  }
}

// The same leaves, but that in the second tensor next to nothing is left of the first two to meet.
Leaves CancelFirst(const Leaves& leaves, double rest) {
  const TreeNode first = MakeTree(static_cast<int>(leaves.size()))[0];
  std::vector<double> opposite = leaves[first.left][1].Values();
  for (double& value : opposite) value = rest - value;
  Leaves cancelling;
  for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    cancelling.emplace_back();
    for (size_t i = 0; i < leaves[leaf].size(); ++i) {
      if (static_cast<int>(leaf) == first.right && i == 1) {
        cancelling[leaf].emplace_back(leaves[leaf][i].dtype(), opposite);
      } else {
        cancelling[leaf].push_back(leaves[leaf][i]);
      }
    }
  }
  return cancelling;
}

// Moments must be taken on the way then: one tensor of many makes all ranks turn back. In float16
// what is left is told well enough.
TEST(WhatCancelsOnTheWay) {
  for (Wire wire : kWires) {
    for (int size : {3, 4, 5, 8}) {
      for (DType dtype : {DType::kFloat64, DType::kFloat32, DType::kFloat16}) {
        // As much as has digits in the dtype.
        const double rest = dtype == DType::kFloat16 ? 0.5 : 1e-2;
        Scope scope(std::to_string(size) + " ranks, " + DTypeName(dtype));
        Leaves inputs = CancelFirst(RandomLeaves(size, dtype, {3000, 2000, 100}), rest);
        const Leaves before(inputs);
        Outcome outcome = ReduceOnAllRanks(wire, "adasum", inputs);
        CheckAgainstTree("adasum", inputs, outcome.outputs);
        // Those of the way that they turned back from, and all of the other.
        const int64_t all_parts =
            BytesSent(0, size, 5100, ElementBytes(dtype), 3, outcome.algorithm);
        const bool is_direct = outcome.algorithm == Algorithm::kDirect ||
                               outcome.algorithm == Algorithm::kNetworkDirect;
        CHECK_EQ(outcome.bytes_sent[0] > all_parts, is_direct && dtype != DType::kFloat16);
        ReduceOnAllRanks(wire, "adasum", inputs, Outputs::kInPlace);
        CheckAgainstTree("adasum", before, inputs);
        CheckAlike(inputs);
      }
    }
  }
}

TEST(SendsTheBytesItSays) {
  std::set<Algorithm> algorithms;
  for (Wire wire : kWires) {
    for (int size : {1, 2, 3, 4, 5, 8}) {
      for (int64_t count : {1, 64, 1000, 2000, 1500001}) {
        if (count > 10000 && size > 4) continue;
        // Scalars often cancel.
        if (count == 1 && wire == Wire::kNetwork) continue;
        const std::vector<int64_t> counts = {count, 0, 17};
        for (const char* reduction : kReductions) {
          Scope scope(std::to_string(size) + " ranks, " + reduction + " of " +
                      std::to_string(count));
          Leaves inputs = RandomLeaves(size, DType::kFloat32, counts);
          Outcome outcome = ReduceOnAllRanks(wire, reduction, inputs);
          const Algorithm algorithm = outcome.algorithm;
          algorithms.insert(algorithm);
          const int64_t num_moments = std::string(reduction) == "adasum" ? counts.size() : 0;
          for (int rank = 0; rank < size; ++rank) {
            CHECK_EQ(outcome.bytes_sent[rank],
                     BytesSent(rank, size, count + 17, 4, num_moments, algorithm));
          }
        }
      }
    }
  }
  CHECK_EQ(algorithms.size(), size_t{4});
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
