// Copies of tensors, also where the C library's are slow.
#ifndef ADASUM_CORE_COPY_BYTES_H_
#define ADASUM_CORE_COPY_BYTES_H_

#include <cstdint>

namespace adasum {

// As std::memcpy, which takes ten times as long on some of AMD's processors (its `rep movsb`:
// glibc's bug 30994) where the destination lies 1 to 31 bytes behind the source, modulo 4 KiB:
// benchmarks/distances.cc. Larger arrays of NumPy often lie 16 bytes behind a page, as malloc maps
// them, and slots at its begin. Both may be null if there are no bytes.
void CopyBytes(void* to, const void* from, int64_t num_bytes);

// The same, a cache line at a time wherever they lie: what CopyBytes does in that case.
void CopyLines(void* to, const void* from, int64_t num_bytes);

}  // namespace adasum

#endif  // ADASUM_CORE_COPY_BYTES_H_
