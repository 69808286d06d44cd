// Arithmetic on device memory: every call puts work on one stream and returns, but for the
// moments, which are wanted on the host.
#ifndef ADASUM_CUDA_CUDA_ARITHMETIC_CU_H_
#define ADASUM_CUDA_CUDA_ARITHMETIC_CU_H_

#include "cc/arithmetic/arithmetic_cuda.h"
#include "cc/core/arithmetic.h"
#include "cc/core/scratch.h"
#include "cc/cuda/resources.cu.h"

namespace adasum {

// One thread at a time. Segments of one call must be distinct.
class CudaArithmetic : public Arithmetic {
 public:
  // Both must outlive this.
  CudaArithmetic(const Stream* stream, const WaitLimits* limits, int rank)
      : stream_(stream), limits_(limits), rank_(rank) {}

  void AddMoments(DType dtype, const std::vector<Piece>& pieces, Moments* moments) override;
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
  // A list on its way to the device, and until the kernel that reads it is done.
  struct Upload {
    Scratch host{ThePinnedMemory()};
    Scratch device{TheDeviceMemory()};
    Event used;
  };
  // With several in turn a launch waits for none of those just before it.
  static constexpr int kNumUploads = 4;

  // Calls launch(list) with `pieces` on the device, and the coefficients of each behind them if
  // `coefficients` (of each segment) is not null.
  template <typename Launch>
  void WithList(DType dtype, const std::vector<Piece>& pieces, const Coefficients* coefficients,
                Launch launch);
  // Brings results to their second place, where a piece has one.
  void CopyResults(DType dtype, const std::vector<Piece>& pieces);
  // Counters of arrivals for so many pieces, zero.
  unsigned* Arrivals(int64_t num_pieces);

  const Stream* stream_;
  const WaitLimits* limits_;
  const int rank_;
  Upload uploads_[kNumUploads];
  int turn_ = 0;
  Scratch moments_{TheDeviceMemory()};
  Scratch partials_{TheDeviceMemory()};
  Scratch arrivals_{TheDeviceMemory()};
  int64_t num_arrivals_ = 0;
  Scratch moments_on_host_{ThePinnedMemory()};
  Event moments_there_;
};

}  // namespace adasum

#endif  // ADASUM_CUDA_CUDA_ARITHMETIC_CU_H_
