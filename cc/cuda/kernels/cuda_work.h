// What the CUDA kernels work on: pieces of any size, cut into chunks of one size, so that a list
// of many tiny and few huge segments loads all multiprocessors alike. Plain C++: a list is written
// in host memory, and its bytes mean the same in device memory.
#ifndef ADASUM_CUDA_KERNELS_CUDA_WORK_H_
#define ADASUM_CUDA_KERNELS_CUDA_WORK_H_

#include <cstdint>
#include <vector>

#include "cc/core/arithmetic.h"
#include "cc/core/dtype.h"

namespace adasum {

// A piece whose operands are in device memory, and the chunks [first_chunk, first_chunk +
// num_chunks) that it is cut into. Kernels know a piece by its index in the list.
struct CudaPiece {
  const void* left;
  const void* right;
  void* out;
  void* copy;  // a second address for results, null where none is wanted
  int64_t num_elements;
  int64_t first_chunk;
  int64_t num_chunks;
};

// Elements [index * n, (index + 1) * n) of a piece, n = CudaChunkElements.
struct CudaChunk {
  int32_t piece;
  int32_t index;
};

struct CudaWork {
  const CudaPiece* pieces;
  const CudaChunk* chunks;
  int64_t num_pieces;
  int64_t num_chunks;
};

// Device memory that a launch of the moments needs.
struct CudaMomentsMemory {
  Moments* moments;    // one of each piece: the result
  Moments* partials;   // one of each chunk
  unsigned* arrivals;  // one of each piece, zero before the first launch; launches leave zeros
};

// Of each operand. Small enough that 2^28 bytes are 20 chunks for each block that an H200 holds,
// large enough that summing a block's threads is little beside it.
constexpr int64_t kCudaChunkBytes = 32768;

inline int64_t CudaChunkElements(int64_t element_bytes) { return kCudaChunkBytes / element_bytes; }

// A piece without elements has one chunk too: its moments are zero and must be written.
int64_t CountCudaChunks(const std::vector<Piece>& pieces, int64_t element_bytes);

// Bytes of a written list.
int64_t CudaWorkBytes(int64_t num_pieces, int64_t num_chunks);

// Writes the list of `pieces` to CudaWorkBytes at `host`, aligned to 8.
void WriteCudaWork(const std::vector<Piece>& pieces, int64_t element_bytes, void* host);

// The list that was copied to `base`.
CudaWork CudaWorkAt(const void* base, int64_t num_pieces, int64_t num_chunks);

}  // namespace adasum

#endif  // ADASUM_CUDA_KERNELS_CUDA_WORK_H_
