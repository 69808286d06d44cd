#include "tests/cc/reduced_leaves.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "cc/algorithms/reduce_leaves.h"
#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/arithmetic/helper_threads.h"
#include "cc/core/error.h"
#include "tests/cc/check.h"
#include "tests/cc/counting_transport.h"
#include "tests/cc/normals.h"
#include "tests/cc/tree.h"

namespace adasum {
namespace test {
namespace {

Leaves EmptyLeaves(const Leaves& like) {
  Leaves leaves(like.size());
  for (size_t leaf = 0; leaf < like.size(); ++leaf) {
    for (const Elements& tensor : like[leaf])
      leaves[leaf].emplace_back(tensor.dtype(), tensor.size());
  }
  return leaves;
}

void CheckInputsUntouched(const Leaves& inputs, const Leaves& before) {
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    for (size_t variable = 0; variable < inputs[0].size(); ++variable) {
      const Elements& now = inputs[rank][variable];
      CHECK_EQ(std::memcmp(now.bytes(), before[rank][variable].bytes(), now.num_bytes()), 0);
    }
  }
}

}  // namespace

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

Leaves RandomLeaves(int size, DType dtype, const std::vector<int64_t>& counts) {
  std::mt19937 random(size * 1000 + static_cast<int>(dtype));
  Normals normal(random());
  Leaves leaves(size);
  for (auto& leaf : leaves) {
    for (int64_t count : counts) {
      std::vector<double> values(count);
      for (double& value : values) {
        value = IsFloating(dtype)       ? normal()
                : dtype == DType::kBool ? random() % 3 > 0
                                        : static_cast<int>(random() % 2001) - 1000;
      }
      leaf.emplace_back(dtype, values);
    }
  }
  return leaves;
}

Outcome ReduceOnAllRanks(Wire wire, const char* reduction, Leaves& inputs, Outputs where,
                         const std::function<void()>& dawdle, bool measures, int cores) {
  World world(wire, static_cast<int>(inputs.size()));
  Outcome outcome{EmptyLeaves(inputs),
                  std::vector<int64_t>(inputs.size()),
                  std::vector<int64_t>(inputs.size()),
                  {inputs.size(), std::vector<SquaredNorms>(inputs[0].size())},
                  std::vector<int64_t>(inputs.size()),
                  std::vector<int64_t>(inputs.size()),
                  std::vector<int64_t>(inputs.size())};
  std::vector<int64_t> counts;
  for (const Elements& tensor : inputs[0]) counts.push_back(tensor.size());
  const Segments segments(counts);
  // Large results past the caches, as the communicator does.
  CpuArithmetic of_core(KernelsOf(WidestInstructionSet()), segments.num_elements() > 100000);
  std::vector<LeafScratch> scratch(inputs.size());
  // As if the cores of some ranks were far from all others.
  for (size_t rank = 0; rank < scratch.size(); rank += 2) scratch[rank].stores = PeerStores(0);
  // Nobody chooses.
  for (LeafScratch& leaf : scratch) leaf.cross_memory.CopyAlways();
  ForEachRank(world.size(), [&](int rank) {
    std::vector<const void*> in;
    std::vector<void*> out;
    for (Elements& tensor : inputs[rank]) {
      in.push_back(tensor.size() == 0 ? nullptr : tensor.bytes());
    }
    Leaves& outputs = where == Outputs::kInPlace ? inputs : outcome.outputs;
    for (Elements& tensor : outputs[rank]) out.push_back(tensor.bytes());
    if (where == Outputs::kFirstRankOnly && rank > 0) out.clear();
    HelperThreads helpers;
    ParallelArithmetic of_cores(&of_core, cores, helpers.Lend(cores - 1));
    Arithmetic& arithmetic = cores > 1 ? static_cast<Arithmetic&>(of_cores) : of_core;
    CountingTransport transport(&world.transport(rank), dawdle);
    try {
      SquaredNorms* const norms = measures ? outcome.norms[rank].data() : nullptr;
      ReduceLeaves({inputs[rank][0].dtype(), segments, in, out, norms},
                   {FindReduction(reduction), transport, arithmetic, scratch[rank]});
    } catch (const Error& error) {
      Fail(__FILE__, __LINE__, error.what());
    }
    outcome.bytes_sent[rank] = transport.num_bytes;
    outcome.num_messages[rank] = transport.num_messages;
    outcome.num_located[rank] = transport.num_located;
    outcome.num_fetched[rank] = transport.num_fetched;
    outcome.num_stored[rank] = transport.num_stored;
  });
  outcome.algorithm = SelectAlgorithm(world.transport(0),
                                      segments.num_elements() * ElementBytes(inputs[0][0].dtype()));
  return outcome;
}

void CheckAgainstTree(const char* reduction, const Leaves& inputs, const Leaves& outputs) {
  for (size_t variable = 0; variable < inputs[0].size(); ++variable) {
    DType dtype = inputs[0][variable].dtype();
    std::vector<std::vector<double>> values;
    double scale = 0;
    for (const auto& leaf : inputs) {
      values.push_back(leaf[variable].Values());
      scale = std::fmax(scale, Norm(values.back()));
    }
    std::vector<double> expected = ReduceTree(reduction, dtype, values);
    scale = std::fmax(scale, Norm(expected));
    CHECK_AT_MOST(Distance(outputs[0][variable].Values(), expected), Tolerance(dtype) * scale);
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

void CheckWorld(Wire wire, int size, const char* reduction, DType dtype,
                const std::vector<int64_t>& counts) {
  Scope scope(std::string(WireName(wire)) + ", " + std::to_string(size) + " ranks, " + reduction +
              ", " + DTypeName(dtype) + ", " + std::to_string(counts.size()) +
              " tensors, the first of " + std::to_string(counts[0]));
  Leaves inputs = RandomLeaves(size, dtype, counts);
  const Leaves before(inputs);
  Outcome outcome = ReduceOnAllRanks(wire, reduction, inputs);
  CheckAgainstTree(reduction, inputs, outcome.outputs);
  CheckAlike(outcome.outputs);
  CheckInputsUntouched(inputs, before);
}

}  // namespace test
}  // namespace adasum
