// The tree over vectors that all lie here gives the bits of the exchange that it stands for.

#include "cc/algorithms/whole_tree.h"

#include <cstring>
#include <string>
#include <vector>

#include "cc/arithmetic/cpu_arithmetic.h"
#include "tests/cc/check.h"
#include "tests/cc/elements.h"
#include "tests/cc/reduced_leaves.h"

namespace adasum {
namespace {

using test::CheckAgainstTree;
using test::CheckAlike;
using test::Elements;
using test::kDTypes;
using test::kReductions;
using test::Leaves;
using test::Outcome;
using test::RandomLeaves;
using test::ReduceOnAllRanks;
using test::Scope;
using test::Wire;

// What each leaf encloses: its tensors end to end.
std::vector<char> Packed(const std::vector<Elements>& tensors) {
  std::vector<char> packed;
  for (const Elements& tensor : tensors) {
    const char* bytes = static_cast<const char*>(tensor.bytes());
    packed.insert(packed.end(), bytes, bytes + tensor.num_bytes());
  }
  return packed;
}

// The result as one leaf finds it, in its own tensors if `is_in_place`.
std::vector<Elements> ReduceHere(Transport& transport, const char* reduction, const Leaves& inputs,
                                 bool is_in_place) {
  const DType dtype = inputs[0][0].dtype();
  std::vector<Elements> own(inputs[0]), results;
  std::vector<int64_t> counts;
  for (const Elements& tensor : own) {
    counts.push_back(tensor.size());
    results.emplace_back(dtype, tensor.size());
  }
  std::vector<const void*> in;
  std::vector<void*> out;
  for (Elements& tensor : own) in.push_back(tensor.size() == 0 ? nullptr : tensor.bytes());
  for (Elements& tensor : is_in_place ? own : results) out.push_back(tensor.bytes());
  std::vector<std::vector<char>> packed;
  for (const auto& leaf : inputs) packed.push_back(Packed(leaf));
  std::vector<void*> vectors;
  for (std::vector<char>& vector : packed) vectors.push_back(vector.data());
  const Segments segments(counts);
  CpuArithmetic arithmetic(KernelsOf(WidestInstructionSet()), false);
  LeafScratch scratch;
  ReduceWholeTree({dtype, segments, in, out},
                  {FindReduction(reduction), transport, arithmetic, scratch}, vectors);
  return is_in_place ? own : results;
}

TEST(BitsOfRecursiveDoubling) {
  for (int size : {2, 3, 4, 5, 6, 7, 8}) {
    test::World world(Wire::kThreads, size);
    for (const char* reduction : kReductions) {
      for (DType dtype : kDTypes) {
        if (!FindReduction(reduction).Supports(dtype)) continue;
        for (const std::vector<int64_t>& counts :
             {std::vector<int64_t>{1}, std::vector<int64_t>{65}, std::vector<int64_t>{500},
              std::vector<int64_t>{300, 0, 7, 1}}) {
          Scope scope(std::to_string(size) + " leaves, " + reduction + ", " + DTypeName(dtype) +
                      ", " + std::to_string(counts[0]));
          Leaves inputs = RandomLeaves(size, dtype, counts);
          Outcome swapped = ReduceOnAllRanks(Wire::kThreads, reduction, inputs);
          CHECK_TRUE(swapped.algorithm == Algorithm::kRecursiveDoubling);
          for (bool is_in_place : {false, true}) {
            swapped.outputs[size - 1] =
                ReduceHere(world.transport(0), reduction, inputs, is_in_place);
            CheckAgainstTree(reduction, inputs, swapped.outputs);
            CheckAlike(swapped.outputs);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
