// Several replicas in one process: one request reduces over all of them, block by block.

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <cmath>
#include <memory>
#include <random>
#include <string>

#include "cc/collectives/simulate.h"
#include "tests/cc/check.h"
#include "tests/cc/elements.h"
#include "tests/cc/ranks.h"
#include "tests/cc/tree.h"

namespace adasum {
namespace {

using test::Describe;
using test::Elements;
using test::Ranks;
using test::Scope;
using test::Wire;

// One request: counts[tensor] elements from each replica, drawn by `draw`.
struct Replicas {
  template <typename Draw>
  Replicas(DType dtype, int num_replicas, const std::vector<int64_t>& counts, Draw draw)
      : dtype(dtype) {
    for (int replica = 0; replica < num_replicas; ++replica) {
      inputs.emplace_back();
      for (int64_t count : counts) {
        inputs.back().emplace_back(dtype, count);
        for (int64_t i = 0; i < count; ++i) {
          test::Set(dtype, inputs.back().back().bytes(), i, draw(replica, i));
        }
      }
    }
    for (int64_t count : counts) outputs.emplace_back(dtype, count);
  }

  test::Ending Reduce(Communicator& communicator, const std::string& reduction) {
    AllreduceTensors tensors{"request", reduction, dtype, {}, {}, {}};
    for (Elements& output : outputs) {
      tensors.shapes.push_back({output.size()});
      tensors.outputs.push_back(output.bytes());
    }
    for (auto& replica : inputs) {
      tensors.inputs.emplace_back();
      for (Elements& tensor : replica) tensors.inputs.back().push_back(tensor.bytes());
    }
    test::Pending pending;
    test::EnqueueAllreduce(communicator, std::move(tensors), pending.done());
    return pending.Await();
  }

  DType dtype;
  std::vector<std::vector<Elements>> inputs;
  std::vector<Elements> outputs;
};

TEST(ReplicasAgainstTheTree) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (int num_replicas : {1, 2, 3, 4, 5, 8}) {
    Ranks ranks(Wire::kThreads, 1);
    for (const char* reduction : {"adasum", "sum", "mean"}) {
      Scope scope(std::to_string(num_replicas) + " replicas, " + reduction);
      Replicas replicas(DType::kFloat64, num_replicas, {1, 0, 1000, 65},
                        [&](int, int64_t) { return normal(random); });
      CHECK_EQ(Describe(replicas.Reduce(ranks[0], reduction)), "");
      for (size_t tensor = 0; tensor < replicas.outputs.size(); ++tensor) {
        std::vector<std::vector<double>> values;
        for (const auto& replica : replicas.inputs) values.push_back(replica[tensor].Values());
        double scale = 0;
        for (const auto& each : values) scale = std::fmax(scale, test::Norm(each));
        CHECK_AT_MOST(test::Distance(replicas.outputs[tensor].Values(),
                                     test::ReduceTree(reduction, DType::kFloat64, values)),
                      1e-13 * num_replicas * scale);
      }
    }
  }
}

// In memory that all leaves of a host share: short vectors, several blocks of few leaves, and more
// leaves than are reduced directly.
TEST(ReplicasOfSeveralProcessesAgainstTheTree) {
  std::mt19937 random(4);
  std::normal_distribution<double> normal;
  for (auto [num_ranks, num_replicas] :
       {std::pair{1, 2}, std::pair{2, 2}, std::pair{2, 3}, std::pair{3, 2}, std::pair{3, 4}}) {
    Ranks ranks(Wire::kSharedMemory, num_ranks);
    for (const auto& counts :
         std::vector<std::vector<int64_t>>{{1, 0, 65}, {1000, 3}, {200000, 7, 150000, 90001}}) {
      for (const char* reduction : {"adasum", "mean"}) {
        Scope scope(std::to_string(num_ranks) + " x " + std::to_string(num_replicas) + ", " +
                    std::to_string(counts[0]) + ", " + reduction);
        std::vector<Replicas> of_ranks;
        for (int rank = 0; rank < num_ranks; ++rank) {
          of_ranks.emplace_back(DType::kFloat64, num_replicas, counts,
                                [&](int, int64_t) { return normal(random); });
        }
        test::ForEachRank(num_ranks, [&](int rank) {
          CHECK_EQ(Describe(of_ranks[rank].Reduce(ranks[rank], reduction)), "");
        });
        for (size_t tensor = 0; tensor < counts.size(); ++tensor) {
          std::vector<std::vector<double>> values;
          double scale = 0;
          for (const Replicas& of_rank : of_ranks) {
            for (const auto& replica : of_rank.inputs) {
              values.push_back(replica[tensor].Values());
              scale = std::fmax(scale, test::Norm(values.back()));
            }
            CHECK_TRUE(of_rank.outputs[tensor].Values() == of_ranks[0].outputs[tensor].Values());
          }
          CHECK_AT_MOST(test::Distance(of_ranks[0].outputs[tensor].Values(),
                                       test::ReduceTree(reduction, DType::kFloat64, values)),
                        1e-13 * values.size() * scale);
        }
      }
    }
  }
}

// Of one process any number, of several as many as can be told apart; refused on all ranks, which
// may go on.
TEST(TooManyReplicasOfSeveralProcessesAreRefused) {
  Ranks ranks(Wire::kSharedMemory, 2);
  const auto reduce = [&](int rank, int num_replicas) {
    Replicas replicas(DType::kFloat64, num_replicas, {3}, [](int, int64_t) { return 1.0; });
    const std::string ending = Describe(replicas.Reduce(ranks[rank], "sum"));
    return std::pair{ending, replicas.outputs[0].Values()};
  };
  test::ForEachRank(2, [&](int rank) {
    const std::string ending = reduce(rank, 64).first;
    const std::string expected =
        "Expected at most 63 replicas in a process. Received: 64 on rank 0. Start more processes.";
    CHECK_TRUE(ending.find(expected) != std::string::npos);
    CHECK_TRUE(reduce(rank, 2) == (std::pair{std::string(), std::vector<double>(3, 4.0)}));
  });
}

// Tensors of more than one block (64 MiB), each block larger than the one before: a replica that
// is done with a block must not touch what others still read of it.
TEST(BlocksDoNotOverwriteEachOther) {
  constexpr int64_t kMillion = 1000000;
  const std::vector<int64_t> counts = {9 * kMillion, 10 * kMillion, 11 * kMillion};
  for (int num_replicas : {2, 3}) {
    Scope scope(std::to_string(num_replicas) + " replicas");
    Ranks ranks(Wire::kThreads, 1);
    // Exact in float32 in any order.
    Replicas replicas(DType::kFloat32, num_replicas, counts,
                      [](int replica, int64_t i) { return replica * 1000.0 + i % 997; });
    CHECK_EQ(Describe(replicas.Reduce(ranks[0], "sum")), "");
    for (const Elements& output : replicas.outputs) {
      int64_t num_wrong = 0;
      for (int64_t i = 0; i < output.size(); ++i) {
        double expected = num_replicas * (num_replicas - 1) / 2 * 1000.0 + num_replicas * (i % 997);
        num_wrong += output[i] != expected;
      }
      CHECK_EQ(num_wrong, int64_t{0});
    }
  }
}

#if defined(__SSE2__)
// While it lives the thread takes subnormal numbers for zeros, as TensorFlow's threads do; threads
// that it makes begin likewise.
class FlushesSubnormals {
 public:
  FlushesSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushesSubnormals() { _mm_setcsr(before_); }

 private:
  const unsigned before_;
};

// Whichever thread made the communicator, its own threads compute with subnormal numbers.
TEST(SubnormalNumbersCount) {
  struct World {
    int num_ranks, num_replicas;
  };
  for (World world : {World{1, 2}, World{1, 3}, World{2, 1}, World{3, 1}}) {
    for (const char* reduction : {"adasum", "sum", "mean"}) {
      Scope scope(std::to_string(world.num_ranks) + " ranks, " +
                  std::to_string(world.num_replicas) + " replicas, " + reduction);
      std::unique_ptr<Ranks> ranks;
      {
        FlushesSubnormals flushes;
        ranks = std::make_unique<Ranks>(Wire::kThreads, world.num_ranks);
      }
      // All leaves are equal: so are their mean and Adasum.
      constexpr float kTiny = 0x1p-140f;
      const int num_leaves = world.num_ranks * world.num_replicas;
      const float expected = std::string(reduction) == "sum" ? kTiny * num_leaves : kTiny;
      test::ForEachRank(world.num_ranks, [&](int rank) {
        Replicas replicas(DType::kFloat32, world.num_replicas, {9},
                          [&](int, int64_t) { return kTiny; });
        CHECK_EQ(Describe(replicas.Reduce((*ranks)[rank], reduction)), "");
        for (int64_t i = 0; i < 9; ++i) CHECK_EQ(replicas.outputs[0][i], double{expected});
      });
    }
  }
}

TEST(SubnormalNumbersCountInSimulations) {
  constexpr float kTiny = 0x1p-140f;
  const std::vector<float> input(9, kTiny);
  std::vector<float> outputs[2] = {std::vector<float>(9), std::vector<float>(9)};
  {
    FlushesSubnormals flushes;
    Simulate({"sum", "", {2}, WidestInstructionSet()}, DType::kFloat32, {9},
             {{input.data()}, {input.data()}}, {{outputs[0].data()}, {outputs[1].data()}});
  }
  for (const std::vector<float>& output : outputs) {
    for (float value : output) CHECK_EQ(double{value}, double{2 * kTiny});
  }
}
#endif

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
