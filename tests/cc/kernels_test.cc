// The loops of every instruction set that this CPU has, against scalar float64; minimum, maximum
// and product are in binary_kernels_test.cc.

#include <cfloat>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/cc/check.h"
#include "tests/cc/elements.h"
#include "tests/cc/instruction_sets.h"
#include "tests/cc/kernel_pairs.h"

namespace adasum {
namespace {

using test::CheckOutputs;
using test::Elements;
using test::ForEachKernels;
using test::ForEachPair;
using test::kDTypes;
using test::kFloats;
using test::Scope;
using test::WorkError;

TEST(Moments) {
  ForEachPair(kFloats, [](const CpuKernels& kernels, const Elements& a, const Elements& b) {
    // Sums are added to what is there.
    double sums[3] = {1, 2, 3};
    kernels.moments[static_cast<int>(a.dtype())](a.bytes(), b.bytes(), a.size(), sums);
    long double expected[3] = {1, 2, 3}, magnitude[3] = {1, 2, 3};
    for (int64_t i = 0; i < a.size(); ++i) {
      const long double x = a[i], y = b[i], terms[3] = {x * y, x * x, y * y};
      for (int k = 0; k < 3; ++k) {
        expected[k] += terms[k];
        magnitude[k] += std::fabs(terms[k]);
      }
    }
    for (int k = 0; k < 3; ++k) {
      // Partial sums of n / 16 terms in each lane, then the lanes.
      double limit = DBL_EPSILON * (a.size() / 16 + 8) * static_cast<double>(magnitude[k]);
      CHECK_AT_MOST(std::fabs(static_cast<double>(sums[k] - expected[k])), limit);
    }
  });
}

TEST(Combine) {
  constexpr double kLeft = 0.8125, kRight = -0.3;
  ForEachPair(kFloats, [=](const CpuKernels& kernels, const Elements& a, const Elements& b) {
    const DType dtype = a.dtype();
    auto loop = [&](const void* left, const void* right, void* out) {
      kernels.combine[static_cast<int>(dtype)](left, right, kLeft, kRight, a.size(), out);
    };
    CheckOutputs(loop, a, b, [&](int64_t i, double got) {
      double expected = kLeft * a[i] + kRight * b[i];
      double error = WorkError(dtype, std::fabs(kLeft * a[i]) + std::fabs(kRight * b[i]));
      CHECK_AT_MOST(std::fabs(got - expected), test::HalfUlp(dtype, expected) + error);
    });
  });
}

TEST(Stream) {
  ForEachPair(kDTypes, [](const CpuKernels& kernels, const Elements& from, const Elements& other) {
    Elements to(other);
    kernels.stream(to.bytes(), from.bytes(), from.num_bytes());
    CHECK_EQ(std::memcmp(to.bytes(), from.bytes(), from.num_bytes()), 0);
    CHECK_TRUE(to.SurroundingsAreIntact());
  });
}

TEST(Add) {
  ForEachPair(kDTypes, [](const CpuKernels& kernels, const Elements& a, const Elements& b) {
    const DType dtype = a.dtype();
    auto loop = [&](const void* left, const void* right, void* out) {
      kernels.add[static_cast<int>(dtype)](left, right, a.size(), out);
    };
    CheckOutputs(loop, a, b, [&](int64_t i, double got) {
      double expected = dtype == DType::kBool ? std::fmax(a[i], b[i]) : a[i] + b[i];
      if (dtype == DType::kFloat32) expected = static_cast<float>(expected);
      // One rounding for float32 and float64; a second one, of float32, for the smaller ones.
      bool is_small = ElementBytes(dtype) == 2;
      double second = test::HalfUlp(dtype, expected) + WorkError(dtype, std::fabs(expected));
      CHECK_AT_MOST(std::fabs(got - expected), is_small ? second : 0);
    });
  });
}

TEST(Divide) {
  constexpr DType kNumbers[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                                DType::kFloat64, DType::kInt32,    DType::kInt64};
  ForEachPair(kNumbers, [](const CpuKernels& kernels, const Elements& a, const Elements&) {
    for (int64_t divisor : {1, 2, 3, 7, 64}) {
      Elements quotients(a);
      kernels.divide[static_cast<int>(a.dtype())](quotients.bytes(), a.size(), divisor);
      CHECK_TRUE(quotients.SurroundingsAreIntact());
      for (int64_t i = 0; i < a.size(); ++i) {
        double expected = a[i] / static_cast<double>(divisor), error = 0;
        if (!IsFloating(a.dtype())) {
          expected = std::trunc(expected);
        } else if (a.dtype() == DType::kFloat32) {
          expected = static_cast<float>(expected);
        } else if (a.dtype() != DType::kFloat64) {
          error = test::HalfUlp(a.dtype(), expected) + WorkError(a.dtype(), std::fabs(expected));
        }
        CHECK_AT_MOST(std::fabs(quotients[i] - expected), error);
      }
    }
  });
}

TEST(Int64BeyondTheDoubles) {
  ForEachKernels([](const CpuKernels& kernels) {
    const int index = static_cast<int>(DType::kInt64);
    std::vector<int64_t> a = {(int64_t{1} << 62) + 1, -((int64_t{1} << 61) + 3), INT64_MAX};
    std::vector<int64_t> b = {5, -7, 1}, out(3);
    kernels.add[index](a.data(), b.data(), 3, out.data());
    CHECK_EQ(out[0], (int64_t{1} << 62) + 6);
    CHECK_EQ(out[1], -((int64_t{1} << 61) + 10));
    CHECK_EQ(out[2], INT64_MIN);  // wraps
    kernels.divide[index](a.data(), 3, 3);
    CHECK_EQ(a[0], ((int64_t{1} << 62) + 1) / 3);
    CHECK_EQ(a[1], -(((int64_t{1} << 61) + 3) / 3));
  });
}

// A NaN or an infinity at any place shows in the result at that place, and in the moments.
TEST(SpecialValuesTravel) {
  constexpr int64_t kCount = 21;
  ForEachKernels([](const CpuKernels& kernels) {
    for (DType dtype : kFloats) {
      Scope scope(DTypeName(dtype));
      const int index = static_cast<int>(dtype);
      for (int64_t place = 0; place < kCount; ++place) {
        for (double special : {double{NAN}, double{INFINITY}, -double{INFINITY}}) {
          std::vector<double> values(kCount, 0.5);
          values[place] = special;
          Elements a(dtype, values), b(dtype, std::vector<double>(kCount, 0.25));
          Elements sum(dtype, kCount), mix(dtype, kCount);
          kernels.add[index](a.bytes(), b.bytes(), kCount, sum.bytes());
          kernels.combine[index](a.bytes(), b.bytes(), 0.5, 1, kCount, mix.bytes());
          for (int64_t i = 0; i < kCount; ++i) {
            double expected = i == place ? special : 0.75, mixed = i == place ? special : 0.5;
            CHECK_TRUE(sum[i] == expected || (std::isnan(expected) && std::isnan(sum[i])));
            CHECK_TRUE(mix[i] == mixed || (std::isnan(mixed) && std::isnan(mix[i])));
          }
          double sums[3] = {0, 0, 0};
          kernels.moments[index](a.bytes(), b.bytes(), kCount, sums);
          CHECK_TRUE(std::isnan(special) ? std::isnan(sums[0]) : sums[0] == special);
          CHECK_TRUE(std::isnan(special) ? std::isnan(sums[1]) : sums[1] == INFINITY);
          CHECK_EQ(sums[2], kCount * 0.0625);
        }
      }
    }
  });
}

TEST(WhatDoesNotExistIsNull) {
  ForEachKernels([](const CpuKernels& kernels) {
    for (DType dtype : kDTypes) {
      const int index = static_cast<int>(dtype);
      CHECK_EQ(kernels.moments[index] != nullptr, IsFloating(dtype));
      CHECK_EQ(kernels.combine[index] != nullptr, IsFloating(dtype));
      CHECK_TRUE(kernels.add[index] != nullptr);
      CHECK_EQ(kernels.divide[index] != nullptr, dtype != DType::kBool);
    }
  });
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
