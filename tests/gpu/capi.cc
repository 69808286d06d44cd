// The launchers of cc/arithmetic as a C interface, for tests that have CUDA arrays from PyTorch or
// CuPy and no TensorFlow. Functions return 0, or -1 with the reason in adasum_error().

#include <string>
#include <vector>

#include "cc/core/dtype.h"
#include "cc/core/error.h"
#include "cc/cuda/kernels/arithmetic_cuda.h"

// A list that adasum_write_work wrote and that was copied to `base` in device memory. Not in an
// unnamed namespace: functions that take what is there are not exported.
struct WorkAddress {
  const char* dtype;
  const void* base;
  int64_t num_pieces;
  int64_t num_chunks;
  cudaStream_t stream;
};

namespace {

thread_local std::string last_error;

template <typename Call>
int Guarded(Call call) {
  try {
    call();
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return -1;
  }
}

adasum::CudaLaunch ToLaunch(const WorkAddress& work) {
  return {adasum::ParseDType(work.dtype),
          adasum::CudaWorkAt(work.base, work.num_pieces, work.num_chunks), work.stream};
}

std::vector<adasum::Piece> ToPieces(int64_t num_pieces, const adasum::CudaPiece* addresses) {
  std::vector<adasum::Piece> pieces;
  for (int64_t i = 0; i < num_pieces; ++i) {
    const adasum::CudaPiece& piece = addresses[i];
    pieces.push_back({i, piece.left, piece.right, piece.out, piece.copy, piece.num_elements});
  }
  return pieces;
}

}  // namespace

extern "C" {

const char* adasum_error() { return last_error.c_str(); }

// Of `pieces` the operands and numbers of elements are read.
int64_t adasum_count_chunks(int64_t num_pieces, const adasum::CudaPiece* pieces,
                            int64_t element_bytes) {
  return adasum::CountCudaChunks(ToPieces(num_pieces, pieces), element_bytes);
}

int64_t adasum_work_bytes(int64_t num_pieces, int64_t num_chunks) {
  return adasum::CudaWorkBytes(num_pieces, num_chunks);
}

void adasum_write_work(int64_t num_pieces, const adasum::CudaPiece* pieces, int64_t element_bytes,
                       void* host) {
  adasum::WriteCudaWork(ToPieces(num_pieces, pieces), element_bytes, host);
}

int adasum_moments(const WorkAddress* work, const adasum::CudaMomentsMemory* memory) {
  return Guarded([&] { adasum::LaunchMoments(ToLaunch(*work), *memory); });
}

int adasum_combine(const WorkAddress* work, const adasum::Coefficients* coefficients) {
  return Guarded([&] { adasum::LaunchCombine(ToLaunch(*work), coefficients); });
}

int adasum_add(const WorkAddress* work) {
  return Guarded([&] { adasum::LaunchAdd(ToLaunch(*work)); });
}

int adasum_logical_and(const WorkAddress* work) {
  return Guarded([&] { adasum::LaunchLogicalAnd(ToLaunch(*work)); });
}

int adasum_divide(const WorkAddress* work, int64_t divisor) {
  return Guarded([&] { adasum::LaunchDivide(ToLaunch(*work), divisor); });
}

int adasum_copy(const WorkAddress* work) {
  return Guarded([&] { adasum::LaunchCopy(ToLaunch(*work)); });
}

}  // extern "C"
