// The loops of the codecs, compiled once per instruction set.
#ifndef ADASUM_COMPRESSION_CODEC_KERNELS_H_
#define ADASUM_COMPRESSION_CODEC_KERNELS_H_

#include <cstdint>
#include <type_traits>

#include "cc/arithmetic/instruction_sets.h"

namespace adasum {

// Of which sum_and_largest looks for the largest.
constexpr int64_t kKeyBlock = 32;

template <typename T>
using KeyOfType = std::conditional_t<sizeof(T) == sizeof(uint32_t), uint32_t, uint64_t>;

// In each, x is values[i] + residual[i], and a null residual is zero, and stays null.
template <typename T>
struct CodecLoops {
  // Rounds x to 16 bits; residual becomes what rounding took off, and stays where that is no
  // number.
  using Narrow = void (*)(const T* values, T* residual, int64_t n, void* code);
  using Widen = void (*)(const void* code, int64_t n, T* values);
  Narrow to_float16;
  Widen from_float16;
  Narrow to_bfloat16;
  Widen from_bfloat16;

  // The sum of the squares of x.
  double (*sum_squares)(const T* values, const T* residual, int64_t n);
  // Bit i % 8 of byte i / 8 says whether x < 0; residual becomes x - scale or x + scale.
  void (*to_signs)(const T* values, T* residual, int64_t n, T scale, uint8_t* bits);
  void (*from_signs)(const uint8_t* bits, int64_t n, T scale, T* values);

  // The largest magnitude of x; NaN where an x is not finite.
  T (*largest)(const T* values, const T* residual, int64_t n);
  // Levels of `bits` bits, 2, 4 or 8, from the lowest bit of the first byte: with L =
  // 2^(bits - 1) - 1, floor(x L / scale + u + L), from 0 to 2 L, u in [0, 1) at random; L where the
  // scale is no number above 0. Residual becomes what that takes off x.
  void (*to_levels)(const T* values, T* residual, int64_t n, T scale, int bits, uint8_t* levels);
  void (*from_levels)(const uint8_t* levels, int64_t n, T scale, int bits, T* values);

  // Residual becomes x. largest[b] is the largest magnitude of block b, kKeyBlock values of x, the
  // last one shorter: its bits, so that infinity is larger than all, and NaN than infinity.
  void (*sum_and_largest)(const T* values, T* residual, int64_t n, KeyOfType<T>* largest);
};

struct CodecKernels {
  CodecLoops<float> of_float32;
  CodecLoops<double> of_float64;

  const CodecLoops<float>& Of(const float*) const { return of_float32; }
  const CodecLoops<double>& Of(const double*) const { return of_float64; }
};

// The loops for an instruction set that this CPU runs.
const CodecKernels& CodecKernelsOf(InstructionSet set);

// Each lives in a translation unit of its own, compiled for that instruction set.
const CodecKernels& BaselineCodecKernels();
#if defined(__x86_64__)
const CodecKernels& Avx2CodecKernels();
const CodecKernels& Avx512CodecKernels();
#endif

}  // namespace adasum

#endif  // ADASUM_COMPRESSION_CODEC_KERNELS_H_
