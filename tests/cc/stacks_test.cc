// Many vectors at once: their inner products and weighted sums, against long double, by every
// instruction set, by the way that any device has, and on several cores.

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/arithmetic/parallel_arithmetic.h"
#include "cc/core/bytes.h"
#include "tests/cc/check.h"
#include "tests/cc/elements.h"
#include "tests/cc/instruction_sets.h"

namespace adasum {
namespace {

using test::Elements;
using test::ForEachKernels;
using test::kFloats;
using test::Scope;

// Around the vectors of 8 lanes, four of them, and the tiles of 8 KiB.
constexpr int64_t kCounts[] = {0, 1, 7, 8, 9, 31, 32, 33, 70, 1024, 2049, 4103};

// n operands of every count, one stack each.
struct Vectors {
  Vectors(DType dtype, int n) {
    std::mt19937_64 random(n);
    std::normal_distribution<double> normal;
    for (int64_t count : kCounts) {
      operands.emplace_back();
      for (int i = 0; i < n; ++i) {
        std::vector<double> values(count);
        for (double& value : values) value = normal(random);
        operands.back().emplace_back(dtype, values, i * 8);
      }
      outs.emplace_back(dtype, count, 16);
      copies.emplace_back(dtype, count, 24);
    }
  }
  std::vector<Stack> Stacks(bool is_past_caches = false) {
    std::vector<Stack> stacks;
    for (size_t k = 0; k < outs.size(); ++k) {
      stacks.push_back(
          {static_cast<int64_t>(k), {}, outs[k].bytes(), {copies[k].bytes()}, outs[k].size()});
      for (size_t i = 0; i < operands[k].size(); ++i) {
        stacks[k].operands[i] = operands[k][i].bytes();
      }
      stacks[k].is_past_caches = is_past_caches;
    }
    return stacks;
  }
  std::vector<std::vector<Elements>> operands;
  std::vector<Elements> outs, copies;
};

void CheckGrams(Arithmetic& arithmetic, DType dtype, int n) {
  Vectors vectors(dtype, n);
  const std::vector<Stack> stacks = vectors.Stacks();
  std::vector<double> grams(stacks.size() * GramSize(n), 0.5);  // what is there is added to
  arithmetic.AddGrams(dtype, n, stacks, grams.data());
  for (size_t k = 0; k < stacks.size(); ++k) {
    const std::vector<Elements>& x = vectors.operands[k];
    int next = 0;
    for (int i = 0; i < n; ++i) {
      for (int j = i; j < n; ++j) {
        long double expected = 0.5, magnitude = 0.5;
        for (int64_t e = 0; e < x[i].size(); ++e) {
          const long double term = static_cast<long double>(x[i][e]) * x[j][e];
          expected += term;
          magnitude += std::fabs(term);
        }
        CHECK_EQ(GramIndex(n, i, j), next);
        CHECK_EQ(GramIndex(n, j, i), next);
        const double got = grams[k * GramSize(n) + next++];
        const double limit = DBL_EPSILON * (x[i].size() / 8 + 8) * static_cast<double>(magnitude);
        CHECK_AT_MOST(std::fabs(static_cast<double>(got - expected)), limit);
      }
    }
    CHECK_EQ(next, GramSize(n));
  }
}

// How far off sums are that are worked in float32, or in float64.
double WorkError(DType dtype, int n) {
  return (n + 1) * (dtype == DType::kFloat64 ? DBL_EPSILON : FLT_EPSILON);
}

void CheckWeighted(Arithmetic& arithmetic, DType dtype, int n, bool is_past_caches = false) {
  Vectors vectors(dtype, n);
  const std::vector<Stack> stacks = vectors.Stacks(is_past_caches);
  std::vector<double> weights;
  for (size_t i = 0; i < stacks.size() * n; ++i) weights.push_back(std::cos(1.0 * i));
  arithmetic.CombineStacks(dtype, n, stacks, weights.data());
  arithmetic.Finish();
  for (size_t k = 0; k < stacks.size(); ++k) {
    const Elements& out = vectors.outs[k];
    for (int64_t e = 0; e < out.size(); ++e) {
      double expected = 0, magnitude = 0;
      for (int i = 0; i < n; ++i) {
        const double term = weights[k * n + i] * vectors.operands[k][i][e];
        expected += term;
        magnitude += std::fabs(term);
      }
      const double limit = test::HalfUlp(dtype, expected) + WorkError(dtype, n) * magnitude;
      CHECK_AT_MOST(std::fabs(out[e] - expected), limit);
    }
    CHECK_EQ(std::memcmp(vectors.copies[k].bytes(), out.bytes(), out.num_bytes()), 0);
    CHECK_TRUE(out.SurroundingsAreIntact() && vectors.copies[k].SurroundingsAreIntact());
  }
}

// Calls check(n, dtype) for all.
template <typename Check>
void ForEveryStack(Check check) {
  for (int n = 2; n <= kMostOperands; ++n) {
    for (DType dtype : kFloats) {
      Scope scope(std::to_string(n) + " operands, " + DTypeName(dtype));
      check(n, dtype);
    }
  }
}

TEST(InnerProductsOfAll) {
  ForEachKernels([](const CpuKernels& kernels) {
    ForEveryStack([&](int n, DType dtype) {
      CpuArithmetic cpu(kernels);
      CheckGrams(cpu, dtype, n);
    });
  });
}

TEST(WeightedSums) {
  ForEachKernels([](const CpuKernels& kernels) {
    for (bool delivers_past_caches : {false, true}) {
      ForEveryStack([&](int n, DType dtype) {
        CpuArithmetic cpu(kernels, delivers_past_caches);
        CheckWeighted(cpu, dtype, n);
        CheckWeighted(cpu, dtype, n, true);
      });
    }
  });
}

// Wherever chunks end: neither a vector's last elements nor its tiles round in a way of their own.
TEST(ChunksChangeNoBit) {
  ForEachKernels([](const CpuKernels& kernels) {
    ForEveryStack([&](int n, DType dtype) {
      constexpr int64_t kChunk = 8192;                    // elements: whole tiles of every dtype
      constexpr int64_t kBegin = 7, kCount = 3 * kChunk;  // of the segment, in the leaf's part
      std::mt19937_64 random(n);
      std::normal_distribution<double> normal;
      std::vector<Elements> x;
      for (int i = 0; i < n; ++i) {
        std::vector<double> values(kCount);
        for (double& value : values) value = normal(random);
        x.emplace_back(dtype, values);
      }
      std::vector<double> weights;
      for (int i = 0; i < n; ++i) weights.push_back(std::cos(1.0 * i));
      std::vector<std::vector<double>> grams;
      std::vector<Elements> outs;
      for (int64_t chunk : {int64_t{1} << 40, 2 * kChunk, kChunk}) {
        CpuArithmetic cpu(kernels);
        grams.emplace_back(GramSize(n));
        Elements out(dtype, kCount);
        for (int64_t begin = 0, end; begin < kCount; begin = end) {
          end = std::min(kCount, ((kBegin + begin) / chunk + 1) * chunk - kBegin);
          const int64_t skip = begin * ElementBytes(dtype);
          Stack stack{0, {}, At(out.bytes(), skip), {}, end - begin, kBegin + begin};
          for (int i = 0; i < n; ++i) stack.operands[i] = At(x[i].bytes(), skip);
          cpu.AddGrams(dtype, n, {stack}, grams.back().data());
          cpu.CombineStacks(dtype, n, {stack}, weights.data());
        }
        outs.push_back(out);
      }
      for (size_t i = 1; i < outs.size(); ++i) {
        CHECK_TRUE(grams[i] == grams[0]);
        CHECK_EQ(std::memcmp(outs[i].bytes(), outs[0].bytes(), outs[0].num_bytes()), 0);
      }
    });
  });
}

// Also one that goes nowhere else.
TEST(PastTheCachesWithoutCopies) {
  CpuArithmetic cpu;
  ForEveryStack([&](int n, DType dtype) {
    const std::vector<double> weights(std::size(kCounts) * n, 0.75);
    Vectors through(dtype, n), past(dtype, n);
    cpu.CombineStacks(dtype, n, through.Stacks(), weights.data());
    std::vector<Stack> stacks = past.Stacks(true);
    for (Stack& stack : stacks) stack.copies[0] = nullptr;
    cpu.CombineStacks(dtype, n, stacks, weights.data());
    for (size_t k = 0; k < stacks.size(); ++k) {
      const Elements& out = past.outs[k];
      CHECK_EQ(std::memcmp(out.bytes(), through.outs[k].bytes(), out.num_bytes()), 0);
      CHECK_TRUE(out.SurroundingsAreIntact());
    }
  });
}

// All results are delivered: to the first copy what would have been in `out`.
TEST(CopiesWithoutAnOut) {
  for (bool delivers_past_caches : {false, true}) {
    CpuArithmetic cpu(KernelsOf(WidestInstructionSet()), delivers_past_caches);
    ForEveryStack([&](int n, DType dtype) {
      const std::vector<double> weights(std::size(kCounts) * n, 0.75);
      Vectors with(dtype, n), without(dtype, n);
      cpu.CombineStacks(dtype, n, with.Stacks(), weights.data());
      std::vector<Stack> stacks = without.Stacks();
      for (Stack& stack : stacks) {
        stack.copies[1] = stack.out;
        stack.out = nullptr;
      }
      cpu.CombineStacks(dtype, n, stacks, weights.data());
      for (size_t k = 0; k < stacks.size(); ++k) {
        for (const Elements* got : {&without.outs[k], &without.copies[k]}) {
          CHECK_EQ(std::memcmp(got->bytes(), with.outs[k].bytes(), got->num_bytes()), 0);
          CHECK_TRUE(got->SurroundingsAreIntact());
        }
      }
    });
  }
}

// A result may replace one of the operands.
TEST(CopyInPlaceOfAnOperand) {
  for (bool delivers_past_caches : {false, true}) {
    CpuArithmetic cpu(KernelsOf(WidestInstructionSet()), delivers_past_caches);
    ForEveryStack([&](int n, DType dtype) {
      const std::vector<double> weights(std::size(kCounts) * n, 0.75);
      Vectors apart(dtype, n);
      cpu.CombineStacks(dtype, n, apart.Stacks(), weights.data());
      for (int place = 0; place < n; ++place) {
        Vectors vectors(dtype, n);
        std::vector<Stack> stacks = vectors.Stacks(place % 2 == 1);
        for (size_t k = 0; k < stacks.size(); ++k) {
          stacks[k].copies[0] = vectors.operands[k][place].bytes();
        }
        cpu.CombineStacks(dtype, n, stacks, weights.data());
        for (size_t k = 0; k < stacks.size(); ++k) {
          const Elements& out = apart.outs[k];
          CHECK_EQ(std::memcmp(stacks[k].copies[0], out.bytes(), out.num_bytes()), 0);
        }
      }
    });
  }
}

TEST(SeveralCoresGiveTheSameBits) {
  CpuArithmetic cpu;
  const int n = 3;
  const int64_t count = 200001;
  std::vector<Elements> x;
  for (int i = 0; i < n; ++i) {
    std::vector<double> values(count);
    for (int64_t e = 0; e < count; ++e) values[e] = (e * (i + 3)) % 17 - 8;
    x.emplace_back(DType::kFloat32, values);
  }
  std::vector<std::vector<double>> grams;
  std::vector<Elements> outs;
  const double weights[] = {0.5, 0.25, 2};
  for (int width : {1, 2, 5}) {
    Elements out(DType::kFloat32, count);
    ParallelArithmetic arithmetic(&cpu, width, nullptr);
    const std::vector<Stack> stacks = {
        {0, {x[0].bytes(), x[1].bytes(), x[2].bytes()}, out.bytes(), {}, count}};
    grams.emplace_back(GramSize(n));
    arithmetic.AddGrams(DType::kFloat32, n, stacks, grams.back().data());
    arithmetic.CombineStacks(DType::kFloat32, n, stacks, weights);
    outs.push_back(out);
  }
  for (size_t i = 0; i < grams.size(); ++i) {
    CHECK_TRUE(grams[i] == grams[0]);
    CHECK_EQ(std::memcmp(outs[i].bytes(), outs[0].bytes(), outs[0].num_bytes()), 0);
  }
  for (int64_t e = 0; e < count; ++e) {
    CHECK_EQ(outs[0][e], 0.5 * x[0][e] + 0.25 * x[1][e] + 2 * x[2][e]);
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
