// The element-wise CUDA kernels, run on the CPU by cuda_emulation: the source that nvcc compiles,
// against scalar float64. What only a GPU can show is in tests/gpu.

#include "tests/cc/cuda_emulation.h"
// Only behind it, what is made of its words.
#include <cfloat>
#include <cmath>

#include "cc/cuda/kernels/cuda_elementwise.cu.h"
#include "tests/cc/check.h"
#include "tests/cc/cuda_lists.h"

namespace adasum {
namespace {

using test::Elements;
using test::kCounts;
using test::kFloats;
using test::List;
using test::Pairs;
using test::Scope;

template <typename Operation>
void RunElementwise(const std::vector<Piece>& pieces, Operation operation) {
  constexpr int64_t kElementBytes = sizeof(typename Operation::In);
  List list(pieces, kElementBytes);
  test::RunGrid(3, cuda::kThreads, 1, [&] {
    cuda::ElementwiseKernel(list.work, operation, CudaChunkElements(kElementBytes));
  });
}

// run(pieces) applied apart and in place; check(piece, element, got) sees the first.
template <typename Run, typename Check>
void CheckElementwise(DType dtype, Run run, Check check) {
  for (bool misaligned : {false, true}) {
    Scope scope(std::string(DTypeName(dtype)) + (misaligned ? ", misaligned" : ""));
    Pairs pairs(dtype, kCounts, misaligned);
    run(pairs.Pieces());
    for (size_t i = 0; i < pairs.out.size(); ++i) {
      CHECK_TRUE(pairs.out[i].SurroundingsAreIntact());
      for (int64_t k = 0; k < pairs.out[i].size(); ++k) {
        check(pairs.left[i][k], pairs.right[i][k], static_cast<int>(i), pairs.out[i][k]);
      }
    }
    Pairs again(dtype, kCounts, misaligned);
    std::vector<Piece> in_place = again.Pieces();
    for (Piece& piece : in_place) piece.out = const_cast<void*>(piece.left);
    run(in_place);
    for (size_t i = 0; i < pairs.out.size(); ++i) {
      CHECK_TRUE(again.left[i].SurroundingsAreIntact());
      CHECK_EQ(std::memcmp(again.left[i].bytes(), pairs.out[i].bytes(), pairs.out[i].num_bytes()),
               0);
    }
  }
}

// Results in two places have in both the bits that they have in one: apart, and where the second
// place is the left operand, as with a caller's tensor that is reduced in place. `distance` is that
// of the second place from a multiple of 16 bytes, in elements behind the first one's.
template <typename Run>
void CheckSecondPlace(DType dtype, Run run) {
  for (bool misaligned : {false, true}) {
    Pairs once(dtype, kCounts, misaligned);
    run(once.Pieces());
    for (int distance : {0, 1, -1}) {
      Scope scope(std::string(DTypeName(dtype)) + (misaligned ? ", misaligned" : "") +
                  ", second place " + std::to_string(distance));
      Pairs pairs(dtype, kCounts, misaligned);
      std::vector<Piece> pieces = pairs.Pieces();
      std::deque<Elements> copies;
      for (size_t i = 0; i < pieces.size(); ++i) {
        const auto address = reinterpret_cast<uintptr_t>(pieces[i].out);
        const int shift = static_cast<int>((address + distance * ElementBytes(dtype)) % 64);
        copies.emplace_back(dtype, pieces[i].num_elements, shift);
        pieces[i].copy = distance < 0 ? const_cast<void*>(pieces[i].left) : copies[i].bytes();
        if (i % 5 == 4) pieces[i].copy = nullptr;
      }
      run(pieces);
      for (size_t i = 0; i < pieces.size(); ++i) {
        CHECK_TRUE(pairs.out[i].SurroundingsAreIntact() && pairs.left[i].SurroundingsAreIntact() &&
                   copies[i].SurroundingsAreIntact());
        const int64_t num_bytes = once.out[i].num_bytes();
        CHECK_EQ(std::memcmp(pairs.out[i].bytes(), once.out[i].bytes(), num_bytes), 0);
        if (pieces[i].copy == nullptr) continue;
        CHECK_EQ(std::memcmp(pieces[i].copy, once.out[i].bytes(), num_bytes), 0);
      }
    }
  }
}

// One rounding to the dtype, after work in float64, or for 16 bits in float32.
double ErrorOf(DType dtype, double magnitude) {
  const double epsilon = ElementBytes(dtype) == 2 ? FLT_EPSILON : DBL_EPSILON;
  return IsFloating(dtype) ? test::HalfUlp(dtype, magnitude) + 3 * epsilon * magnitude : 0;
}

TEST(Combine) {
  std::vector<Coefficients> coefficients;
  for (size_t i = 0; i < kCounts.size(); ++i) coefficients.push_back({0.8125 - i, 0.3 * i});
  auto check_as = [&](DType dtype, auto operation) {
    auto run = [&](const std::vector<Piece>& pieces) { RunElementwise(pieces, operation); };
    CheckSecondPlace(dtype, run);
    CheckElementwise(dtype, run, [&](double left, double right, int piece, double got) {
      const Coefficients& c = coefficients[piece];
      const double magnitude = std::fabs(c.left * left) + std::fabs(c.right * right);
      CHECK_AT_MOST(std::fabs(got - (c.left * left + c.right * right)), ErrorOf(dtype, magnitude));
    });
  };
  const Coefficients* all = coefficients.data();
  check_as(DType::kFloat16, cuda::SmallCombineOperation<__half>{all});
  check_as(DType::kBFloat16, cuda::SmallCombineOperation<__nv_bfloat16>{all});
  check_as(DType::kFloat32, cuda::CombineOperation<float>{all});
  check_as(DType::kFloat64, cuda::CombineOperation<double>{all});
}

// Coefficients beyond float32, as vectors of unlike norms have them.
TEST(CombineUnlikeNorms) {
  constexpr double kSmall = 0x1p-130;  // bfloat16's subnormal numbers, too
  constexpr int64_t kCount = 1000;
  std::vector<double> small, large;
  for (int64_t i = 0; i < kCount; ++i) {
    small.push_back((i % 13 - 4) * kSmall);
    large.push_back((i % 7 + 1) * 0x1p120);
  }
  auto check_as = [&](DType dtype, auto make_operation) {
    Scope scope(DTypeName(dtype));
    Elements a(dtype, small), b(dtype, large), out(dtype, kCount);
    const Coefficients steep{-0x1.8p248, 0.75};
    auto check = [&](const Elements& left, const Elements& right, Coefficients c) {
      RunElementwise({{0, left.bytes(), right.bytes(), out.bytes(), nullptr, kCount}},
                     make_operation(&c));
      for (int64_t i = 0; i < kCount; ++i) {
        const double expected = c.left * left[i] + c.right * right[i];
        CHECK_AT_MOST(std::fabs(out[i] - expected), ErrorOf(dtype, 8 * 0x1p120));
      }
    };
    check(a, b, steep);
    check(b, a, {steep.right, steep.left});
  };
  check_as(DType::kBFloat16,
           [](const Coefficients* all) { return cuda::SmallCombineOperation<__nv_bfloat16>{all}; });
  check_as(DType::kFloat32,
           [](const Coefficients* all) { return cuda::CombineOperation<float>{all}; });
  check_as(DType::kFloat64,
           [](const Coefficients* all) { return cuda::CombineOperation<double>{all}; });
}

TEST(AddAndDivide) {
  auto check_as = [&](DType dtype, auto operation, auto expected) {
    auto run = [&](const std::vector<Piece>& pieces) { RunElementwise(pieces, operation); };
    CheckSecondPlace(dtype, run);
    CheckElementwise(dtype, run, [&](double left, double right, int, double got) {
      const double magnitude = std::fabs(left) + std::fabs(right);
      CHECK_AT_MOST(std::fabs(got - expected(left, right)), ErrorOf(dtype, magnitude));
    });
  };
  auto sum = [](double left, double right) { return left + right; };
  auto third = [](double left, double) { return left / 3; };
  auto whole_third = [](double left, double) { return std::trunc(left / 3); };
  check_as(DType::kFloat16, cuda::SmallAddOperation<__half>{}, sum);
  check_as(DType::kBFloat16, cuda::SmallAddOperation<__nv_bfloat16>{}, sum);
  check_as(DType::kFloat32, cuda::AddOperation<float>{}, sum);
  check_as(DType::kFloat64, cuda::AddOperation<double>{}, sum);
  check_as(DType::kFloat16, cuda::SmallDivideOperation<__half>{3}, third);
  check_as(DType::kBFloat16, cuda::SmallDivideOperation<__nv_bfloat16>{3}, third);
  check_as(DType::kFloat32, cuda::DivideOperation<float>{3}, third);
  check_as(DType::kFloat64, cuda::DivideOperation<double>{3}, third);
  check_as(DType::kInt32, cuda::AddOperation<uint32_t>{}, sum);
  check_as(DType::kInt64, cuda::AddOperation<uint64_t>{}, sum);
  check_as(DType::kInt32, cuda::DivideOperation<int32_t>{3}, whole_third);
  check_as(DType::kInt64, cuda::DivideOperation<int64_t>{3}, whole_third);
  check_as(DType::kBool, cuda::OrOperation{}, [](double a, double b) { return std::fmax(a, b); });
  check_as(DType::kBool, cuda::AndOperation{}, [](double a, double b) { return std::fmin(a, b); });
}

// A list of tensors into one packed buffer and out again, in one launch each.
TEST(PackAndUnpack) {
  for (DType dtype : {DType::kBool, DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
    Pairs pairs(dtype, kCounts, true);
    int64_t total = 0;
    for (int64_t count : kCounts) total += count;
    Elements packed(dtype, total);
    std::vector<Piece> pack = pairs.Pieces(), unpack = pairs.Pieces();
    int64_t begin = 0;
    for (size_t i = 0; i < pack.size(); ++i) {
      void* place = packed.bytes() + begin * ElementBytes(dtype);
      pack[i].out = place;
      unpack[i].left = place;
      begin += pack[i].num_elements;
    }
    for (const std::vector<Piece>& pieces : {pack, unpack}) {
      switch (ElementBytes(dtype)) {
        case 1:
          RunElementwise(pieces, cuda::CopyOperation<uint8_t>{});
          break;
        case 2:
          RunElementwise(pieces, cuda::CopyOperation<uint16_t>{});
          break;
        case 4:
          RunElementwise(pieces, cuda::CopyOperation<uint32_t>{});
          break;
        default:
          RunElementwise(pieces, cuda::CopyOperation<uint64_t>{});
      }
    }
    CHECK_TRUE(packed.SurroundingsAreIntact());
    for (size_t i = 0; i < pack.size(); ++i) {
      CHECK_TRUE(pairs.out[i].SurroundingsAreIntact());
      CHECK_EQ(std::memcmp(pairs.out[i].bytes(), pairs.left[i].bytes(), pairs.left[i].num_bytes()),
               0);
    }
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
