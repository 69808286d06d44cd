#include "tests/cc/elements.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

namespace adasum {
namespace test {
namespace {

constexpr int kMargin = 64;
constexpr char kMark = 0x5A;

template <typename T>
T Read(const void* elements, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(elements) + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Write(void* elements, int64_t index, T value) {
  std::memcpy(static_cast<char*>(elements) + index * sizeof(T), &value, sizeof(T));
}

}  // namespace

double SmallFloat::Decode(uint16_t bits) const {
  int exponent = (bits & 0x7FFF) >> mantissa_bits;
  int mantissa = bits & ((1 << mantissa_bits) - 1);
  double magnitude;
  if (exponent == (1 << exponent_bits) - 1) {
    magnitude = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    magnitude = std::ldexp(mantissa, 1 - bias() - mantissa_bits);
  } else {
    magnitude = std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias() - mantissa_bits);
  }
  return bits & 0x8000 ? -magnitude : magnitude;
}

uint16_t SmallFloat::Encode(double value) const {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | infinity() | (1 << (mantissa_bits - 1));
  if (std::isinf(value)) return sign | infinity();
  if (value == 0) return sign;
  int exponent = std::max(std::ilogb(value), 1 - bias());
  // The default rounding mode: to nearest, ties to even.
  double steps = std::nearbyint(std::ldexp(std::fabs(value), mantissa_bits - exponent));
  int64_t hidden = int64_t{1} << mantissa_bits;
  int64_t bits = static_cast<int64_t>(steps);
  // A normal value loses its leading one to the exponent; rounding up may carry into it.
  if (bits >= hidden) bits += (static_cast<int64_t>(exponent + bias()) << mantissa_bits) - hidden;
  return sign | static_cast<uint16_t>(std::min<int64_t>(bits, infinity()));
}

double Get(DType dtype, const void* elements, int64_t index) {
  switch (dtype) {
    case DType::kFloat16:
      return kHalf.Decode(Read<uint16_t>(elements, index));
    case DType::kBFloat16:
      return kBrain.Decode(Read<uint16_t>(elements, index));
    case DType::kFloat32:
      return Read<float>(elements, index);
    case DType::kFloat64:
      return Read<double>(elements, index);
    case DType::kInt32:
      return Read<int32_t>(elements, index);
    case DType::kInt64:
      return static_cast<double>(Read<int64_t>(elements, index));
    case DType::kBool:
      return Read<uint8_t>(elements, index);
  }
  return NAN;
}

void Set(DType dtype, void* elements, int64_t index, double value) {
  switch (dtype) {
    case DType::kFloat16:
      return Write(elements, index, kHalf.Encode(value));
    case DType::kBFloat16:
      return Write(elements, index, kBrain.Encode(value));
    case DType::kFloat32:
      return Write(elements, index, static_cast<float>(value));
    case DType::kFloat64:
      return Write(elements, index, value);
    case DType::kInt32:
      return Write(elements, index, static_cast<int32_t>(value));
    case DType::kInt64:
      return Write(elements, index, static_cast<int64_t>(value));
    case DType::kBool:
      return Write(elements, index, static_cast<uint8_t>(value));
  }
}

double HalfUlp(DType dtype, double value) {
  struct Format {
    int mantissa_bits, least_exponent;
  } format{52, -1022};
  if (dtype == DType::kFloat16) format = {10, -14};
  if (dtype == DType::kBFloat16) format = {7, -126};
  if (dtype == DType::kFloat32) format = {23, -126};
  int exponent = value == 0 ? format.least_exponent : std::ilogb(value);
  return std::ldexp(0.5, std::max(exponent, format.least_exponent) - format.mantissa_bits);
}

std::atomic<int> InArena::num_alive_{0};

Elements::Elements(DType dtype, int64_t count, int misalignment)
    : dtype_(dtype),
      count_(count),
      misalignment_(misalignment),
      memory_(4 * kMargin + count * ElementBytes(dtype), kMark) {
  uintptr_t address = reinterpret_cast<uintptr_t>(memory_.data()) + kMargin;
  begin_ = memory_.data() + kMargin + (64 - address % 64) % 64 + misalignment;
  std::memset(begin_, 0, num_bytes());
}

Elements::Elements(DType dtype, const std::vector<double>& values, int misalignment)
    : Elements(dtype, static_cast<int64_t>(values.size()), misalignment) {
  for (int64_t i = 0; i < count_; ++i) Set(dtype_, begin_, i, values[i]);
}

Elements::Elements(const Elements& other)
    : Elements(other.dtype_, other.count_, other.misalignment_) {
  std::memcpy(begin_, other.begin_, num_bytes());
}

std::vector<double> Elements::Values() const {
  std::vector<double> values;
  for (int64_t i = 0; i < count_; ++i) values.push_back((*this)[i]);
  return values;
}

bool Elements::SurroundingsAreIntact() const {
  const char* end = begin_ + num_bytes();
  auto is_mark = [](char byte) { return byte == kMark; };
  return std::all_of(memory_.data(), static_cast<const char*>(begin_), is_mark) &&
         std::all_of(end, memory_.data() + memory_.size(), is_mark);
}

}  // namespace test
}  // namespace adasum
