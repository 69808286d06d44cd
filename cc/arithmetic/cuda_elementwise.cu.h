// Everything that works element by element, on all pieces of a list in one launch: combine, add,
// logical and, divide, copies and conversions (pack and unpack).
#ifndef ADASUM_ARITHMETIC_CUDA_ELEMENTWISE_CU_H_
#define ADASUM_ARITHMETIC_CUDA_ELEMENTWISE_CU_H_

#include "cc/arithmetic/cuda_elements.cu.h"
#include "cc/arithmetic/cuda_moments.cu.h"
#include "cc/arithmetic/cuda_work.h"

namespace adasum {
namespace cuda {

// An operation has types In and Out, says whether it reads the right operand, and gives the
// function of one piece: Out f(In left, In right).

// Coefficients and sum are float64 for float32 and float64, and rounded once.
template <typename T>
struct CombineOperation {
  using In = T;
  using Out = T;
  static constexpr bool kReadsRight = true;
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
  __device__ auto OfPiece(int32_t) const {
    return [](T left, T right) { return left + right; };
  }
};

template <typename T>
struct SmallAddOperation {
  using In = T;
  using Out = T;
  static constexpr bool kReadsRight = true;
  __device__ auto OfPiece(int32_t) const {
    return [](T left, T right) { return Round<T>(ToFloat(left) + ToFloat(right)); };
  }
};

struct OrOperation {
  using In = uint8_t;
  using Out = uint8_t;
  static constexpr bool kReadsRight = true;
  __device__ auto OfPiece(int32_t) const {
    return [](uint8_t left, uint8_t right) { return static_cast<uint8_t>(left | right); };
  }
};

struct AndOperation {
  using In = uint8_t;
  using Out = uint8_t;
  static constexpr bool kReadsRight = true;
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
  __device__ auto OfPiece(int32_t) const {
    return [](T value, T) { return value; };
  }
};

template <typename From, typename To>
struct ConvertOperation {
  using In = From;
  using Out = To;
  static constexpr bool kReadsRight = false;
  __device__ auto OfPiece(int32_t) const {
    return [](From value, From) { return Round<To>(ToFloat(value)); };
  }
};

// Groups `group`, `group` + kThreads, ... kUnroll of them: all loads before the first store.
template <int kUnroll, int kCount, typename Operation, typename Function>
__device__ inline void ApplyGroups(const Function& function, int group,
                                   const typename Operation::In* left,
                                   const typename Operation::In* right,
                                   typename Operation::Out* out) {
  Group<typename Operation::In, kCount> a[kUnroll], b[kUnroll];
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) {
    const int element = (group + i * kThreads) * kCount;
    a[i].LoadAligned(left + element);
    if (Operation::kReadsRight) b[i].LoadAligned(right + element);
  }
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) {
    Group<typename Operation::Out, kCount> c;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      c.values[k] = function(a[i].values[k], (Operation::kReadsRight ? b : a)[i].values[k]);
    }
    c.StoreAligned(out + (group + i * kThreads) * kCount);
  }
}

// Elements one by one where the operands' alignments differ; else those up to the first aligned
// one, the groups, and the rest. Each element is read and written by one thread, so that `out` may
// be an operand.
template <typename Operation, typename Function>
__device__ inline void ApplyChunk(const Function& function, const typename Operation::In* left,
                                  const typename Operation::In* right, typename Operation::Out* out,
                                  int count) {
  using In = typename Operation::In;
  using Out = typename Operation::Out;
  constexpr int kCount = kGroupOf<In> < kGroupOf<Out> ? kGroupOf<In> : kGroupOf<Out>;
  constexpr int kUnroll = 2;
  const int past = static_cast<int>(reinterpret_cast<uintptr_t>(out) / sizeof(Out) % kCount);
  int head = past == 0 ? 0 : kCount - past;
  bool is_aligned = Group<In, kCount>::Aligns(left + head);
  if (Operation::kReadsRight) is_aligned &= Group<In, kCount>::Aligns(right + head);
  if (!is_aligned || head > count) head = count;
  const int num_groups = (count - head) / kCount;
  const In* left_groups = left + head;
  const In* right_groups = Operation::kReadsRight ? right + head : left_groups;
  int group = threadIdx.x;
  for (; group + (kUnroll - 1) * kThreads < num_groups; group += kUnroll * kThreads) {
    ApplyGroups<kUnroll, kCount, Operation>(function, group, left_groups, right_groups, out + head);
  }
  for (; group < num_groups; group += kThreads) {
    ApplyGroups<1, kCount, Operation>(function, group, left_groups, right_groups, out + head);
  }
  auto apply_each = [&](int begin, int end) {
    for (int i = begin + threadIdx.x; i < end; i += kThreads) {
      out[i] = function(left[i], (Operation::kReadsRight ? right : left)[i]);
    }
  };
  apply_each(0, head);
  apply_each(head + num_groups * kCount, count);
}

template <typename Operation>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    ElementwiseKernel(CudaWork work, Operation operation, int64_t chunk_elements) {
  using In = typename Operation::In;
  for (int64_t place = blockIdx.x; place < work.num_chunks; place += gridDim.x) {
    const CudaChunk chunk = work.chunks[place];
    const CudaPiece piece = work.pieces[chunk.piece];
    const int64_t begin = chunk.index * chunk_elements;
    const int64_t behind = piece.num_elements - begin;
    const In* left = Global<const In>(piece.left) + begin;
    const In* right = Operation::kReadsRight ? Global<const In>(piece.right) + begin : left;
    ApplyChunk<Operation>(operation.OfPiece(chunk.piece), left, right,
                          Global<typename Operation::Out>(piece.out) + begin,
                          static_cast<int>(behind < chunk_elements ? behind : chunk_elements));
  }
}

}  // namespace cuda
}  // namespace adasum

#endif  // ADASUM_ARITHMETIC_CUDA_ELEMENTWISE_CU_H_
