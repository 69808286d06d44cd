// An allreduce on all ranks of a world at once, and what must hold of its results.
#ifndef ADASUM_TESTS_CC_REDUCED_LEAVES_H_
#define ADASUM_TESTS_CC_REDUCED_LEAVES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "cc/algorithms/reduce_leaves.h"
#include "cc/core/dtype.h"
#include "tests/cc/elements.h"
#include "tests/cc/worlds.h"

namespace adasum {
namespace test {

inline constexpr const char* kReductions[] = {"adasum", "sum", "mean"};

// tensors[leaf][variable]
using Leaves = std::vector<std::vector<Elements>>;

// The same values for the same arguments.
Leaves RandomLeaves(int size, DType dtype, const std::vector<int64_t>& counts);

enum class Outputs { kApart, kInPlace, kFirstRankOnly };

struct Outcome {
  Leaves outputs;
  std::vector<int64_t> bytes_sent;
  std::vector<int64_t> num_messages;
  std::vector<std::vector<SquaredNorms>> norms;  // norms[leaf][variable]
  std::vector<int64_t> num_located;  // tensors of peers that each leaf reached where they lie
  std::vector<int64_t> num_fetched, num_stored;  // bytes that each leaf copied from and to peers
  Algorithm algorithm = Algorithm::kRecursiveHalving;
};

// ReduceLeaves on every rank of a new world. In place, the results are in `inputs`. Every message
// is held up by `dawdle`. The norms are asked for if it `measures`. Each rank works on `cores`.
Outcome ReduceOnAllRanks(Wire wire, const char* reduction, Leaves& inputs,
                         Outputs where = Outputs::kApart,
                         const std::function<void()>& dawdle = nullptr, bool measures = false,
                         int cores = 1);

// Of a result against the definition, in L2 and relative to the larger of the result and the
// largest input: where inputs cancel (a scalar and its negative) the result may be as small as the
// rounding of the storage.
double Tolerance(DType dtype);

// The first leaf's outputs are those of the tree in float64.
void CheckAgainstTree(const char* reduction, const Leaves& inputs, const Leaves& outputs);
// All leaves have the same bits.
void CheckAlike(const Leaves& leaves);
// One allreduce, with results apart from the inputs, which it leaves alone.
void CheckWorld(Wire wire, int size, const char* reduction, DType dtype,
                const std::vector<int64_t>& counts);

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_REDUCED_LEAVES_H_
