// Elements as the kernels see them: types, their wide forms, and loads of 16 bytes.
#ifndef ADASUM_CUDA_KERNELS_CUDA_ELEMENTS_CU_H_
#define ADASUM_CUDA_KERNELS_CUDA_ELEMENTS_CU_H_

// Outside nvcc these come from //tests/cc:cuda_emulation.
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include <cstdint>

namespace adasum {
namespace cuda {

__device__ inline float ToFloat(float value) { return value; }
__device__ inline float ToFloat(__half value) { return __half2float(value); }
__device__ inline float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ inline double ToDouble(T value) {
  return ToFloat(value);
}
__device__ inline double ToDouble(double value) { return value; }

// Rounds to nearest even.
template <typename T>
__device__ inline T Round(float value);
template <>
__device__ inline float Round(float value) {
  return value;
}
template <>
__device__ inline __half Round(float value) {
  return __float2half_rn(value);
}
template <>
__device__ inline __nv_bfloat16 Round(float value) {
  return __float2bfloat16_rn(value);
}

// An address that was read from a list: known to be in no block's shared and no thread's local
// memory, so that its loads and stores need not look.
template <typename T, typename Pointer>
__device__ inline T* Global(Pointer* address) {
  __builtin_assume(__isGlobal(address));
  return static_cast<T*>(address);
}

// The word of so many bytes that one instruction loads.
template <int kBytes>
struct Word;
template <>
struct Word<1> {
  using Type = uint8_t;
};
template <>
struct Word<2> {
  using Type = uint16_t;
};
template <>
struct Word<4> {
  using Type = uint32_t;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<16> {
  using Type = uint4;
};

// kCount neighbouring elements in registers.
template <typename T, int kCount>
struct Group {
  static constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  using WordType = typename Word<kBytes>::Type;
  T values[kCount];

  __device__ static bool Aligns(const T* address) {
    return reinterpret_cast<uintptr_t>(address) % kBytes == 0;
  }
  __device__ void LoadAligned(const T* from) {
    const WordType word = *reinterpret_cast<const WordType*>(from);
    memcpy(values, &word, kBytes);
  }
  __device__ void LoadEach(const T* from) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = from[i];
  }
  __device__ void StoreAligned(T* to) const {
    WordType word;
    memcpy(&word, values, kBytes);
    *reinterpret_cast<WordType*>(to) = word;
  }
  __device__ void StoreEach(T* to) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = values[i];
  }
};

// Elements in 16 bytes.
template <typename T>
constexpr int kGroupOf = 16 / static_cast<int>(sizeof(T));

}  // namespace cuda
}  // namespace adasum

#endif  // ADASUM_CUDA_KERNELS_CUDA_ELEMENTS_CU_H_
