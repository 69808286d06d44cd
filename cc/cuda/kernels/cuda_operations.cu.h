// What the kernels that work element by element do with one element.
#ifndef ADASUM_CUDA_KERNELS_CUDA_OPERATIONS_CU_H_
#define ADASUM_CUDA_KERNELS_CUDA_OPERATIONS_CU_H_

#include <type_traits>

#include "cc/core/arithmetic.h"
#include "cc/cuda/kernels/cuda_elements.cu.h"

namespace adasum {
namespace cuda {

// An operation has types In and Out, says whether it reads the right operand, whether results may
// be wanted at two addresses and how many groups a thread has under way, and gives the function of
// one piece: Out f(In left, In right).
template <typename From, typename To, bool kRight, bool kTwice, int kGroups>
struct Operation {
  using In = From;
  using Out = To;
  static constexpr bool kReadsRight = kRight;
  static constexpr bool kStoresTwice = kTwice;
  static constexpr int kUnroll = kGroups;
};
template <typename T>
using Binary = Operation<T, T, true, true, 2>;
// With two groups under way a division spills registers.
template <typename T>
using InPlace = Operation<T, T, false, true, 1>;
template <typename From, typename To>
using Unary = Operation<From, To, false, false, 2>;

// Coefficients and sum are float64 for float32 and float64, and rounded once.
template <typename T>
struct CombineOperation : Binary<T> {
  explicit CombineOperation(const Coefficients* of_pieces) : coefficients(of_pieces) {}
  const Coefficients* coefficients;
  __device__ auto OfPiece(int32_t piece) const {
    const Coefficients c = coefficients[piece];
    return [c](T left, T right) {
      return static_cast<T>(fma(c.left, ToDouble(left), c.right * ToDouble(right)));
    };
  }
};

constexpr double kMostFloat = 0x1.fffffep127;
// Whether the ratio of two norms, and so a coefficient, may be beyond float32.
template <typename T>
constexpr bool kHasFloatsRange = !std::is_same<T, __half>::value;

// In float32; with coefficients beyond it in float64.
template <typename T>
struct SmallCombineOperation : Binary<T> {
  explicit SmallCombineOperation(const Coefficients* of_pieces) : coefficients(of_pieces) {}
  const Coefficients* coefficients;
  __device__ auto OfPiece(int32_t piece) const {
    const Coefficients c = coefficients[piece];
    const float c_left = static_cast<float>(c.left);
    const float c_right = static_cast<float>(c.right);
    const bool is_beyond_float =
        kHasFloatsRange<T> && (fabs(c.left) > kMostFloat || fabs(c.right) > kMostFloat);
    return [c, c_left, c_right, is_beyond_float](T left, T right) {
      if (is_beyond_float) {
        const double sum = fma(c.left, ToDouble(left), c.right * ToDouble(right));
        return Round<T>(static_cast<float>(sum));
      }
      return Round<T>(fmaf(c_left, ToFloat(left), c_right * ToFloat(right)));
    };
  }
};

// Integers as unsigned, so that an overflow wraps, as it does on the CPU.
template <typename T>
struct AddOperation : Binary<T> {
  __device__ auto OfPiece(int32_t) const {
    return [](T left, T right) { return left + right; };
  }
};

template <typename T>
struct SmallAddOperation : Binary<T> {
  __device__ auto OfPiece(int32_t) const {
    return [](T left, T right) { return Round<T>(ToFloat(left) + ToFloat(right)); };
  }
};

struct OrOperation : Binary<uint8_t> {
  __device__ auto OfPiece(int32_t) const {
    return [](uint8_t left, uint8_t right) { return static_cast<uint8_t>(left | right); };
  }
};

struct AndOperation : Binary<uint8_t> {
  __device__ auto OfPiece(int32_t) const {
    return [](uint8_t left, uint8_t right) { return static_cast<uint8_t>(left & right); };
  }
};

// Integers truncate toward zero.
template <typename T>
struct DivideOperation : InPlace<T> {
  explicit DivideOperation(T by) : divisor(by) {}
  T divisor;
  __device__ auto OfPiece(int32_t) const {
    const T by = divisor;
    return [by](T value, T) { return value / by; };
  }
};

template <typename T>
struct SmallDivideOperation : InPlace<T> {
  explicit SmallDivideOperation(float by) : divisor(by) {}
  float divisor;
  __device__ auto OfPiece(int32_t) const {
    const float by = divisor;
    return [by](T value, T) { return Round<T>(ToFloat(value) / by); };
  }
};

template <typename T>
struct CopyOperation : Unary<T, T> {
  __device__ auto OfPiece(int32_t) const {
    return [](T value, T) { return value; };
  }
};

}  // namespace cuda
}  // namespace adasum

#endif  // ADASUM_CUDA_KERNELS_CUDA_OPERATIONS_CU_H_
