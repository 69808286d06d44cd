// Addresses in memory of any type, and the cache lines that bytes take.
#ifndef ADASUM_CORE_BYTES_H_
#define ADASUM_CORE_BYTES_H_

#include <cstdint>

namespace adasum {

constexpr int64_t kLineBytes = 64;

// As many bytes, in whole lines.
inline int64_t InLines(int64_t num_bytes) {
  return (num_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

inline const char* At(const void* base, int64_t num_bytes) {
  return static_cast<const char*>(base) + num_bytes;
}
inline char* At(void* base, int64_t num_bytes) { return static_cast<char*>(base) + num_bytes; }

}  // namespace adasum

#endif  // ADASUM_CORE_BYTES_H_
