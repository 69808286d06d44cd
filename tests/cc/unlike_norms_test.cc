// Adasum of two vectors whose norms have nothing in common, by every instruction set, against long
// double: no coefficient is beyond the arithmetic, and a small vector's direction counts.

#include <cfloat>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/reductions/reduction.h"
#include "tests/cc/check.h"
#include "tests/cc/elements.h"
#include "tests/cc/instruction_sets.h"

namespace adasum {
namespace {

using test::Elements;
using test::Scope;

constexpr int64_t kCount = 2100;  // more than one tile

// Powers of two from a dtype's least number to one that leaves room for sums.
struct Exponents {
  DType dtype;
  int least, most, step;
};
constexpr Exponents kExponents[] = {{DType::kFloat16, -24, 12, 4},
                                    {DType::kBFloat16, -133, 122, 17},
                                    {DType::kFloat32, -149, 122, 17},
                                    {DType::kFloat64, -500, 500, 100}};

// Normal values about 2^(exponent - 10), and one that is 2^exponent. Below the least number they
// become zero.
Elements RandomElements(DType dtype, int exponent, int seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values = {std::ldexp(1.0, exponent)};
  while (values.size() < kCount) values.push_back(std::ldexp(normal(random), exponent - 10));
  return Elements(dtype, values);
}

Elements Adasum(CpuArithmetic& cpu, const Elements& a, const Elements& b) {
  Elements out(a.dtype(), kCount);
  const std::vector<Piece> pieces = {{0, a.bytes(), b.bytes(), out.bytes(), nullptr, kCount}};
  std::vector<Moments> moments(1);
  cpu.AddMoments(a.dtype(), pieces, moments.data());
  FindReduction("adasum").Combine({a.dtype(), pieces, {1, 1}, true, moments, cpu});
  return out;
}

void CheckAdasum(const Elements& out, const Elements& a, const Elements& b) {
  long double dot = 0, a2 = 0, b2 = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const long double x = a[i], y = b[i];
    dot += x * y;
    a2 += x * x;
    b2 += y * y;
  }
  const long double c_a = 1 - dot / (2 * a2), c_b = 1 - dot / (2 * b2);
  const double epsilon = a.dtype() == DType::kFloat64 ? DBL_EPSILON : FLT_EPSILON;
  for (int64_t i = 0; i < kCount; ++i) {
    const double of_a = static_cast<double>(c_a * a[i]), of_b = static_cast<double>(c_b * b[i]);
    const double work = 24 * epsilon * (std::fabs(of_a) + std::fabs(of_b)) + FLT_MIN * epsilon;
    CHECK_AT_MOST(std::fabs(out[i] - (of_a + of_b)), test::HalfUlp(a.dtype(), of_a + of_b) + work);
  }
}

TEST(AdasumOfUnlikeNorms) {
  test::ForEachKernels([](const CpuKernels& kernels) {
    CpuArithmetic cpu(kernels);
    for (const Exponents& range : kExponents) {
      for (int left = range.least; left <= range.most; left += range.step) {
        for (int right = range.least; right <= range.most; right += range.step) {
          Scope scope(std::string(DTypeName(range.dtype)) + ", 2^" + std::to_string(left) +
                      " and 2^" + std::to_string(right));
          const Elements a = RandomElements(range.dtype, left, 1);
          const Elements b = RandomElements(range.dtype, right, 2);
          CheckAdasum(Adasum(cpu, a, b), a, b);
        }
      }
    }
  });
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
