// Loads and stores of the two 16-bit floats, over all their bit patterns.

#include <cmath>
#include <vector>

#include "cc/core/dtype.h"
#include "tests/cc/check.h"
#include "tests/cc/elements.h"
#include "tests/cc/instruction_sets.h"

namespace adasum {
namespace {

using test::Elements;
using test::ForEachKernels;
using test::kBrain;
using test::kHalf;
using test::Scope;
using test::SmallFloat;

constexpr int kPatterns = 1 << 16;

struct Type {
  DType dtype;
  SmallFloat format;
};
constexpr Type kTypes[] = {{DType::kFloat16, kHalf}, {DType::kBFloat16, kBrain}};

// Calls check(kernels, type, index into the tables of kernels).
template <typename Check>
void ForEachType(Check check) {
  ForEachKernels([&](const CpuKernels& kernels) {
    for (const Type& type : kTypes) {
      Scope scope(DTypeName(type.dtype));
      check(kernels, type, static_cast<int>(type.dtype));
    }
  });
}

std::vector<uint16_t> AllPatterns() {
  std::vector<uint16_t> patterns(kPatterns);
  for (int i = 0; i < kPatterns; ++i) patterns[i] = static_cast<uint16_t>(i);
  return patterns;
}

std::string Hex(uint16_t bits) {
  char text[8];
  std::snprintf(text, sizeof(text), "%04x", bits);
  return text;
}

// The scalar code of the tests against values that anyone can check by hand.
TEST(DefinitionOfTheFormats) {
  CHECK_EQ(kHalf.Decode(0x3C00), 1.0);
  CHECK_EQ(kHalf.Decode(0xC000), -2.0);
  CHECK_EQ(kHalf.Decode(0x7BFF), 65504.0);
  CHECK_EQ(kHalf.Decode(0x0001), std::ldexp(1.0, -24));
  CHECK_EQ(kHalf.Encode(65519.9), 0x7BFF);
  CHECK_EQ(kHalf.Encode(65520), 0x7C00);
  CHECK_EQ(kHalf.Encode(1 + std::ldexp(1.0, -11)), 0x3C00);
  CHECK_EQ(kHalf.Encode(1 + 3 * std::ldexp(1.0, -11)), 0x3C02);
  CHECK_EQ(kBrain.Decode(0x3F80), 1.0);
  CHECK_EQ(kBrain.Decode(0x4049), 3.140625);
  CHECK_EQ(kBrain.Encode(3.14159265), 0x4049);
  for (const Type& type : kTypes) {
    for (int i = 0; i < kPatterns; ++i) {
      uint16_t bits = static_cast<uint16_t>(i);
      if (!type.format.IsNan(bits)) CHECK_EQ(type.format.Encode(type.format.Decode(bits)), bits);
    }
  }
}

// 1 * x in the moments is what was loaded.
TEST(EveryPatternLoads) {
  ForEachType([](const CpuKernels& kernels, const Type& type, int index) {
    Elements one(type.dtype, std::vector<double>{1.0});
    for (uint16_t bits : AllPatterns()) {
      double sums[3] = {0, 0, 0};
      kernels.moments[index](one.bytes(), &bits, 1, sums);
      double expected = type.format.Decode(bits);
      if (std::isnan(expected)) {
        CHECK_TRUE(std::isnan(sums[0]));
      } else if (sums[0] != expected) {
        Scope scope(Hex(bits));
        CHECK_EQ(sums[0], expected);
      }
    }
  });
}

// x + (-0) is x, for the sign of zero as well.
TEST(EveryPatternStoresBack) {
  ForEachType([](const CpuKernels& kernels, const Type& type, int index) {
    const std::vector<uint16_t> patterns = AllPatterns();
    const std::vector<uint16_t> minus_zeros(kPatterns, 0x8000);
    std::vector<uint16_t> stored(kPatterns);
    kernels.add[index](patterns.data(), minus_zeros.data(), kPatterns, stored.data());
    for (int i = 0; i < kPatterns; ++i) {
      uint16_t bits = patterns[i];
      if (type.format.IsNan(bits)) {
        CHECK_TRUE(type.format.IsNan(stored[i]));
        CHECK_EQ(stored[i] & 0x8000, bits & 0x8000);
      } else if (stored[i] != bits) {
        Scope scope(Hex(bits));
        CHECK_EQ(Hex(stored[i]), Hex(bits));
      }
    }
  });
}

// The middle of two neighbours goes to the even one, what is nearer to one goes there. Subnormals
// are among them, and the step to infinity is the last.
TEST(RoundsToNearestEven) {
  struct Weights {
    double left, right;
  };
  ForEachType([](const CpuKernels& kernels, const Type& type, int index) {
    for (uint16_t sign : {0x0000, 0x8000}) {
      std::vector<uint16_t> lower, upper;
      for (uint16_t bits = 0; bits + 1 < type.format.infinity(); ++bits) {
        lower.push_back(sign | bits);
        upper.push_back(sign | (bits + 1));
      }
      const int64_t count = static_cast<int64_t>(lower.size());
      std::vector<uint16_t> stored(count);
      for (Weights w : {Weights{0.5, 0.5}, {0.5625, 0.4375}, {0.4375, 0.5625}}) {
        kernels.combine[index](lower.data(), upper.data(), w.left, w.right, count, stored.data());
        for (int64_t i = 0; i < count; ++i) {
          bool is_lower = w.left > w.right || (w.left == w.right && (lower[i] & 1) == 0);
          uint16_t expected = is_lower ? lower[i] : upper[i];
          if (stored[i] == expected) continue;
          Scope scope(Hex(lower[i]) + " weighs " + test::Show(w.left));
          CHECK_EQ(Hex(stored[i]), Hex(expected));
        }
      }
    }
  });
}

TEST(OverflowsToInfinity) {
  ForEachType([](const CpuKernels& kernels, const Type& type, int index) {
    const uint16_t infinity = type.format.infinity(), largest = infinity - 1;
    // A quarter, a half and a whole of the distance between the largest values.
    double ulp = type.format.Decode(largest) - type.format.Decode(largest - 1);
    for (uint16_t sign : {0x0000, 0x8000}) {
      uint16_t left = sign | largest;
      auto rounded = [&](double share) {
        uint16_t right = sign | type.format.Encode(ulp * share), out = 0;
        kernels.add[index](&left, &right, 1, &out);
        return out;
      };
      CHECK_EQ(Hex(rounded(0.25)), Hex(left));
      CHECK_EQ(Hex(rounded(0.5)), Hex(sign | infinity));
      CHECK_EQ(Hex(rounded(1)), Hex(sign | infinity));
      CHECK_EQ(Hex(rounded(64)), Hex(sign | infinity));
    }
  });
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
