// Floats as whole numbers that are ordered alike, NaN included: what sorts them needs no more.
#ifndef ADASUM_COMPRESSION_KEYS_H_
#define ADASUM_COMPRESSION_KEYS_H_

#include <cmath>
#include <cstdint>
#include <cstring>

namespace adasum {

// Bits in the order of the magnitudes, NaN behind the infinities.
inline uint32_t KeyOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits & 0x7FFFFFFFu;
}
inline uint64_t KeyOf(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits & 0x7FFFFFFFFFFFFFFFu;
}

// In the order of the values, where -0 comes before 0, and NaN at both ends by its sign.
template <typename T>
int64_t OrderedKeyOf(T value) {
  const auto key = static_cast<int64_t>(KeyOf(value));
  return std::signbit(value) ? -key - 1 : key;
}

}  // namespace adasum

#endif  // ADASUM_COMPRESSION_KEYS_H_
