// Pairs of vectors for the loops of every instruction set that this CPU has.
#ifndef ADASUM_TESTS_CC_KERNEL_PAIRS_H_
#define ADASUM_TESTS_CC_KERNEL_PAIRS_H_

#include <cfloat>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/cc/check.h"
#include "tests/cc/elements.h"
#include "tests/cc/instruction_sets.h"

namespace adasum {
namespace test {

// Around the vectors of 8 lanes and the pairs of them, and long runs with a remainder.
inline std::vector<int64_t> Counts() {
  std::vector<int64_t> counts;
  for (int64_t n = 0; n <= 70; ++n) counts.push_back(n);
  counts.insert(counts.end(), {1023, 4097});
  return counts;
}

// Bytes past a multiple of 64; elements of n bytes start at multiples of n.
inline constexpr int kMisalignments[] = {0, 8, 24, 56};

// Of many magnitudes, some zero, float16's subnormals among them.
inline std::vector<double> RandomFloats(int64_t count, std::mt19937_64* random) {
  std::normal_distribution<double> normal;
  std::vector<double> values(count);
  for (double& value : values) {
    uint64_t kind = (*random)() % 16;
    value = kind == 0 ? 0.0 : std::ldexp(normal(*random), static_cast<int>(kind) * 2 - 20);
  }
  return values;
}

inline std::vector<double> RandomValues(DType dtype, int64_t count, std::mt19937_64* random) {
  if (IsFloating(dtype)) return RandomFloats(count, random);
  std::vector<double> values(count);
  for (double& value : values) {
    int32_t bits = static_cast<int32_t>((*random)());
    value = dtype == DType::kBool ? bits & 1 : bits / 2;
  }
  return values;
}

// Calls check(kernels, left, right) for all instruction sets, the given dtypes, all counts and
// starts.
template <typename DTypes, typename Check>
void ForEachPair(const DTypes& dtypes, Check check) {
  ForEachKernels([&](const CpuKernels& kernels) {
    std::mt19937_64 random(11);
    for (DType dtype : dtypes) {
      for (int64_t count : Counts()) {
        for (int misalignment : kMisalignments) {
          Scope scope(std::string(DTypeName(dtype)) + ", n " + std::to_string(count) + ", +" +
                      std::to_string(misalignment));
          check(kernels, Elements(dtype, RandomValues(dtype, count, &random), misalignment),
                Elements(dtype, RandomValues(dtype, count, &random), (misalignment + 8) % 64));
        }
      }
    }
  });
}

// What one wide operation may be off by, when its terms are as large as `magnitude`: float64 is
// worked in float64, the others in float32 with coefficients of float32.
inline double WorkError(DType dtype, double magnitude) {
  return dtype == DType::kFloat64 ? 3 * DBL_EPSILON * magnitude
                                  : 3.0 * FLT_EPSILON * magnitude + FLT_MIN * FLT_EPSILON;
}

// A loop with its output as a new vector, and twice in place.
using Loop = std::function<void(const void* left, const void* right, void* out)>;

inline void CheckOutputs(const Loop& loop, const Elements& left, const Elements& right,
                         const std::function<void(int64_t, double)>& check) {
  Elements apart(left.dtype(), left.size(), 16);
  loop(left.bytes(), right.bytes(), apart.bytes());
  for (int64_t i = 0; i < apart.size(); ++i) check(i, apart[i]);
  CHECK_TRUE(apart.SurroundingsAreIntact());
  Elements on_left(left), on_right(right);
  loop(on_left.bytes(), right.bytes(), on_left.bytes());
  loop(left.bytes(), on_right.bytes(), on_right.bytes());
  CHECK_TRUE(on_left.SurroundingsAreIntact() && on_right.SurroundingsAreIntact());
  CHECK_EQ(std::memcmp(on_left.bytes(), apart.bytes(), apart.num_bytes()), 0);
  CHECK_EQ(std::memcmp(on_right.bytes(), apart.bytes(), apart.num_bytes()), 0);
}

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_KERNEL_PAIRS_H_
