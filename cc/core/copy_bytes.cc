#include "cc/core/copy_bytes.h"

#include <algorithm>
#include <cstring>

#include "cc/core/bytes.h"

namespace adasum {
namespace {

// The C library takes `rep movsb` for no less.
constexpr int64_t kLeastBytes = 2 << 10;
constexpr intptr_t kPageBytes = 4 << 10, kSlowDistance = 32;

bool MovesSlowly(const void* to, const void* from) {
#if defined(__x86_64__)
  static const bool is_amd = __builtin_cpu_is("amd");
  const intptr_t distance =
      (reinterpret_cast<intptr_t>(to) - reinterpret_cast<intptr_t>(from)) & (kPageBytes - 1);
  return is_amd && distance > 0 && distance < kSlowDistance;
#else
  return false;
#endif
}

// A quarter of a cache line, wherever it begins. GCC 12 takes whole lines by way of the stack.
using Quarter = char __attribute__((vector_size(kLineBytes / 4), aligned(1), may_alias));

}  // namespace

void CopyLines(void* to, const void* from, int64_t num_bytes) {
  char* out = static_cast<char*>(to);
  const char* in = static_cast<const char*>(from);
  // Stores that cross lines cost more than loads that do.
  const int64_t to_line = -reinterpret_cast<intptr_t>(out) & (kLineBytes - 1);
  int64_t i = std::min(to_line, num_bytes);
  std::memcpy(out, in, i);
  for (; i + kLineBytes <= num_bytes; i += kLineBytes) {
    const Quarter* const read = reinterpret_cast<const Quarter*>(in + i);
    Quarter* const written = reinterpret_cast<Quarter*>(out + i);
    const Quarter first = read[0], second = read[1], third = read[2], fourth = read[3];
    written[0] = first;
    written[1] = second;
    written[2] = third;
    written[3] = fourth;
  }
  std::memcpy(out + i, in + i, num_bytes - i);
}

void CopyBytes(void* to, const void* from, int64_t num_bytes) {
  if (num_bytes == 0) return;
  if (num_bytes >= kLeastBytes && MovesSlowly(to, from)) {
    return CopyLines(to, from, num_bytes);
  }
  std::memcpy(to, from, num_bytes);
}

}  // namespace adasum
