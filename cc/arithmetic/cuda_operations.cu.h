// What the kernels that work element by element do with one element.
#ifndef ADASUM_ARITHMETIC_CUDA_OPERATIONS_CU_H_
#define ADASUM_ARITHMETIC_CUDA_OPERATIONS_CU_H_

#include "cc/arithmetic/cuda_elements.cu.h"
#include "cc/core/arithmetic.h"

namespace adasum {
namespace cuda {

// An operation has types In and Out, says whether it reads the right operand and whether results
// may be wanted in two places, and gives the function of one piece: Out f(In left, In right).

// Coefficients and sum are float64 for float32 and float64, and rounded once.
template <typename T>
struct CombineOperation {
  using In = T;
  using Out = T;
  static constexpr bool kReadsRight = true;
  static constexpr bool kStoresTwice = true;
  static constexpr int kUnroll = 2;
  const Coefficients* coefficients;  // of each piece
  __device__ auto OfPiece(int32_t piece) const {
    const Coefficients c = coefficients[piece];
    return [c](T left, T right) {
      return static_cast<T>(fma(c.left, ToDouble(left), c.right * ToDouble(right)));
    };
  }
};

template <typename T>
struct SmallCombineOperation {
  using In = T;
  using Out = T;
  static constexpr bool kReadsRight = true;
  static constexpr bool kStoresTwice = true;
  static constexpr int kUnroll = 2;
  const Coefficients* coefficients;
  __device__ auto OfPiece(int32_t piece) const {
    const float c_left = static_cast<float>(coefficients[piece].left);
    const float c_right = static_cast<float>(coefficients[piece].right);
    return [c_left, c_right](T left, T right) {
      return Round<T>(fmaf(c_left, ToFloat(left), c_right * ToFloat(right)));
    };
  }
};

// Integers as unsigned, so that an overflow wraps, as it does on the CPU.
template <typename T>
struct AddOperation {
  using In = T;
  using Out = T;
  static constexpr bool kReadsRight = true;
  static constexpr bool kStoresTwice = true;
  static constexpr int kUnroll = 2;
  __device__ auto OfPiece(int32_t) const {
    return [](T left, T right) { return left + right; };
  }
};

template <typename T>
struct SmallAddOperation {
  using In = T;
  using Out = T;
  static constexpr bool kReadsRight = true;
  static constexpr bool kStoresTwice = true;
  static constexpr int kUnroll = 2;
  __device__ auto OfPiece(int32_t) const {
    return [](T left, T right) { return Round<T>(ToFloat(left) + ToFloat(right)); };
  }
};

struct OrOperation {
  using In = uint8_t;
  using Out = uint8_t;
  static constexpr bool kReadsRight = true;
  static constexpr bool kStoresTwice = true;
  static constexpr int kUnroll = 2;
  __device__ auto OfPiece(int32_t) const {
    return [](uint8_t left, uint8_t right) { return static_cast<uint8_t>(left | right); };
  }
};

struct AndOperation {
  using In = uint8_t;
  using Out = uint8_t;
  static constexpr bool kReadsRight = true;
  static constexpr bool kStoresTwice = true;
  static constexpr int kUnroll = 2;
  __device__ auto OfPiece(int32_t) const {
    return [](uint8_t left, uint8_t right) { return static_cast<uint8_t>(left & right); };
  }
};

// Integers truncate toward zero.
template <typename T>
struct DivideOperation {
  using In = T;
  using Out = T;
  static constexpr bool kReadsRight = false;
  static constexpr bool kStoresTwice = true;
  static constexpr int kUnroll = 1;
  T divisor;
  __device__ auto OfPiece(int32_t) const {
    const T by = divisor;
    return [by](T value, T) { return value / by; };
  }
};

template <typename T>
struct SmallDivideOperation {
  using In = T;
  using Out = T;
  static constexpr bool kReadsRight = false;
  static constexpr bool kStoresTwice = true;
  static constexpr int kUnroll = 1;
  float divisor;
  __device__ auto OfPiece(int32_t) const {
    const float by = divisor;
    return [by](T value, T) { return Round<T>(ToFloat(value) / by); };
  }
};

template <typename T>
struct CopyOperation {
  using In = T;
  using Out = T;
  static constexpr bool kReadsRight = false;
  static constexpr bool kStoresTwice = false;
  static constexpr int kUnroll = 2;
  __device__ auto OfPiece(int32_t) const {
    return [](T value, T) { return value; };
  }
};

template <typename From, typename To>
struct ConvertOperation {
  using In = From;
  using Out = To;
  static constexpr bool kReadsRight = false;
  static constexpr bool kStoresTwice = false;
  static constexpr int kUnroll = 2;
  __device__ auto OfPiece(int32_t) const {
    return [](From value, From) { return Round<To>(ToFloat(value)); };
  }
};

}  // namespace cuda
}  // namespace adasum

#endif  // ADASUM_ARITHMETIC_CUDA_OPERATIONS_CU_H_
