// Addresses in memory of any type.
#ifndef ADASUM_CORE_BYTES_H_
#define ADASUM_CORE_BYTES_H_

#include <cstdint>

namespace adasum {

inline const char* At(const void* base, int64_t num_bytes) {
  return static_cast<const char*>(base) + num_bytes;
}
inline char* At(void* base, int64_t num_bytes) { return static_cast<char*>(base) + num_bytes; }

}  // namespace adasum

#endif  // ADASUM_CORE_BYTES_H_
