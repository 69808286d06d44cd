#include "cc/cuda/kernels/cuda_work.h"

namespace adasum {
namespace {

int64_t CountChunks(int64_t num_elements, int64_t element_bytes) {
  const int64_t chunk = CudaChunkElements(element_bytes);
  return num_elements == 0 ? 1 : (num_elements + chunk - 1) / chunk;
}

}  // namespace

int64_t CountCudaChunks(const std::vector<Piece>& pieces, int64_t element_bytes) {
  int64_t num_chunks = 0;
  for (const Piece& piece : pieces) {
    num_chunks += CountChunks(piece.num_elements, element_bytes);
  }
  return num_chunks;
}

int64_t CudaWorkBytes(int64_t num_pieces, int64_t num_chunks) {
  return num_pieces * sizeof(CudaPiece) + num_chunks * sizeof(CudaChunk);
}

void WriteCudaWork(const std::vector<Piece>& pieces, int64_t element_bytes, void* host) {
  CudaPiece* piece_at = static_cast<CudaPiece*>(host);
  CudaChunk* first = reinterpret_cast<CudaChunk*>(piece_at + pieces.size());
  CudaChunk* chunk_at = first;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const int64_t count = CountChunks(piece.num_elements, element_bytes);
    *piece_at++ = {piece.left,         piece.right,      piece.out, piece.copy,
                   piece.num_elements, chunk_at - first, count};
    for (int64_t index = 0; index < count; ++index) {
      *chunk_at++ = {static_cast<int32_t>(i), static_cast<int32_t>(index)};
    }
  }
}

CudaWork CudaWorkAt(const void* base, int64_t num_pieces, int64_t num_chunks) {
  const CudaPiece* pieces = static_cast<const CudaPiece*>(base);
  return {pieces, reinterpret_cast<const CudaChunk*>(pieces + num_pieces), num_pieces, num_chunks};
}

}  // namespace adasum
