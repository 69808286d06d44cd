// Arithmetic on device memory: every call puts work on one stream and returns. Moments, which are
// wanted on the host, are waited for once, when all have been launched.
#ifndef ADASUM_CUDA_CUDA_ARITHMETIC_CU_H_
#define ADASUM_CUDA_CUDA_ARITHMETIC_CU_H_

#include "cc/core/arithmetic.h"
#include "cc/core/scratch.h"
#include "cc/cuda/kernels/arithmetic_cuda.h"
#include "cc/cuda/resources.cu.h"

namespace adasum {

// One thread at a time. Segments of one call must be distinct.
class CudaArithmetic : public Arithmetic {
 public:
  // Both must outlive this.
  CudaArithmetic(const Stream* stream, const WaitControl* waits, int rank)
      : stream_(stream), waits_(waits), rank_(rank) {}

  // Sees to the memory for calls of at most so many pieces, of so many bytes together. No work may
  // be left.
  void Reserve(int64_t num_pieces, int64_t num_bytes);
  bool Holds(int64_t num_pieces, int64_t num_bytes) const {
    return num_pieces <= reserved_pieces_ && num_bytes <= reserved_bytes_;
  }

  // Enough that the stream has work while the thread exchanges a chunk, and tells a peer of it.
  int ChunksAhead() const override { return 2; }
  void AddMoments(DType dtype, const std::vector<Piece>& pieces, Moments* moments) override;
  void AwaitMoments() override;
  // Forgets the moments that nobody awaits any more, when no work is left.
  void DropMoments();
  void Combine(DType dtype, const std::vector<Piece>& pieces,
               const Coefficients* coefficients) override;
  void Add(DType dtype, const std::vector<Piece>& pieces) override;
  void LogicalAnd(const std::vector<Piece>& pieces) override;
  void Divide(DType dtype, const std::vector<Piece>& pieces, int64_t divisor) override;
  void Copy(void* to, const void* from, int64_t num_bytes) override;
  void Deliver(void* to, const void* from, int64_t num_bytes) override;
  void CopyPieces(DType dtype, const std::vector<Piece>& pieces) override;
  void DeliverPieces(DType dtype, const std::vector<Piece>& pieces) override;

 private:
  // A list on its way to the device, and until the kernel that reads it is done; then its moments,
  // until they are added to those of the segments.
  struct Upload {
    Scratch host{ThePinnedMemory()};
    Scratch device{TheDeviceMemory()};
    Scratch moments{ThePinnedMemory()};  // of each piece
    std::vector<int64_t> segments;       // of each piece
    Moments* sums = nullptr;             // where they belong, of each segment; null if nowhere
    Event used;
  };
  // With a ring of several a launch waits for none of those just before it: two of a chunk, and two
  // for each of ChunksAhead.
  static constexpr int kNumUploads = 8;

  struct List {
    CudaLaunch launch;
    const Coefficients* coefficients;  // of each piece
    Upload* upload;
  };

  // Waits until an upload may be used again; what it found has been added.
  void Collect(Upload* upload);
  // Calls launch(list) with `pieces` on the device, and the coefficients of each behind them if
  // `coefficients` (of each segment) is not null.
  template <typename Launch>
  void WithList(DType dtype, const std::vector<Piece>& pieces, const Coefficients* coefficients,
                Launch launch);
  // Counters of arrivals for so many pieces, zero.
  unsigned* Arrivals(int64_t num_pieces);

  const Stream* stream_;
  const WaitControl* waits_;
  const int rank_;
  Upload uploads_[kNumUploads];
  int64_t turn_ = 0;
  Scratch moments_{TheDeviceMemory()};
  Scratch partials_{TheDeviceMemory()};
  Scratch arrivals_{TheDeviceMemory()};
  int64_t num_arrivals_ = 0;
  int64_t reserved_pieces_ = 0;
  int64_t reserved_bytes_ = 0;
};

}  // namespace adasum

#endif  // ADASUM_CUDA_CUDA_ARITHMETIC_CU_H_
