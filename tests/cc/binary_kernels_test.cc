// Minimum, maximum and product of every instruction set that this CPU has, against scalar float64.

#include <cmath>
#include <vector>

#include "tests/cc/check.h"
#include "tests/cc/elements.h"
#include "tests/cc/instruction_sets.h"
#include "tests/cc/kernel_pairs.h"

namespace adasum {
namespace {

using test::CheckOutputs;
using test::Counts;
using test::Elements;
using test::ForEachKernels;
using test::ForEachPair;
using test::kDTypes;
using test::kFloats;
using test::WorkError;

TEST(MinAndMax) {
  ForEachPair(kDTypes, [](const CpuKernels& kernels, const Elements& a, const Elements& b) {
    for (bool is_max : {false, true}) {
      auto loop = [&](const void* left, const void* right, void* out) {
        const BinaryLoop* loops = is_max ? kernels.max : kernels.min;
        loops[static_cast<int>(a.dtype())](left, right, a.size(), out);
      };
      CheckOutputs(loop, a, b, [&](int64_t i, double got) {
        CHECK_EQ(got, is_max ? std::fmax(a[i], b[i]) : std::fmin(a[i], b[i]));
      });
    }
  });
}

TEST(Multiply) {
  ForEachPair(kDTypes, [](const CpuKernels& kernels, const Elements& a, const Elements& b) {
    const DType dtype = a.dtype();
    if (dtype == DType::kInt32 || dtype == DType::kInt64) return;  // below: they wrap
    auto loop = [&](const void* left, const void* right, void* out) {
      kernels.multiply[static_cast<int>(dtype)](left, right, a.size(), out);
    };
    CheckOutputs(loop, a, b, [&](int64_t i, double got) {
      double expected = a[i] * b[i];
      if (dtype == DType::kFloat16 && std::fabs(expected) > 65504) {  // next to or beyond its end
        CHECK_TRUE(std::fabs(got) >= 65504);
        return;
      }
      if (dtype == DType::kFloat32) expected = static_cast<float>(expected);
      bool is_small = ElementBytes(dtype) == 2;
      double second = test::HalfUlp(dtype, expected) + WorkError(dtype, std::fabs(expected));
      CHECK_AT_MOST(std::fabs(got - expected), is_small ? second : 0);
    });
  });
}

TEST(IntegersMultiplyAndWrap) {
  ForEachKernels([](const CpuKernels& kernels) {
    for (int64_t count : Counts()) {
      std::vector<int32_t> a(count), b(count), out(count);
      std::vector<int64_t> wide_a(count), wide_b(count), wide_out(count);
      for (int64_t i = 0; i < count; ++i) {
        a[i] = static_cast<int32_t>(i * 1000003 - 5), b[i] = static_cast<int32_t>(7 - i * 977);
        wide_a[i] = int64_t{a[i]} * (1 << 20), wide_b[i] = int64_t{b[i]} * (1 << 21);
      }
      kernels.multiply[static_cast<int>(DType::kInt32)](a.data(), b.data(), count, out.data());
      kernels.multiply[static_cast<int>(DType::kInt64)](wide_a.data(), wide_b.data(), count,
                                                        wide_out.data());
      for (int64_t i = 0; i < count; ++i) {
        CHECK_EQ(out[i], static_cast<int32_t>(int64_t{a[i]} * b[i]));
        CHECK_EQ(wide_out[i], static_cast<int64_t>(uint64_t(wide_a[i]) * uint64_t(wide_b[i])));
      }
    }
  });
}

TEST(NanIsLeastAndGreatest) {
  constexpr int64_t kCount = 21;
  ForEachKernels([](const CpuKernels& kernels) {
    for (DType dtype : kFloats) {
      const int index = static_cast<int>(dtype);
      for (int64_t place = 0; place < kCount; ++place) {
        std::vector<double> values(kCount, 0.5);
        values[place] = NAN;
        Elements a(dtype, values), b(dtype, std::vector<double>(kCount, 0.25)), out(dtype, kCount);
        for (BinaryLoop loop : {kernels.min[index], kernels.max[index], kernels.multiply[index]}) {
          loop(a.bytes(), b.bytes(), kCount, out.bytes());
          for (int64_t i = 0; i < kCount; ++i) CHECK_EQ(std::isnan(out[i]), i == place);
          loop(b.bytes(), a.bytes(), kCount, out.bytes());
          for (int64_t i = 0; i < kCount; ++i) CHECK_EQ(std::isnan(out[i]), i == place);
        }
      }
    }
  });
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
