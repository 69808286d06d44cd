// Floats as whole numbers that are ordered alike, NaN included: what sorts them needs no more.
#ifndef ADASUM_COMPRESSION_KEYS_H_
#define ADASUM_COMPRESSION_KEYS_H_

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

}  // namespace adasum

#endif  // ADASUM_COMPRESSION_KEYS_H_
