#include "cc/cuda/cuda_arithmetic.cu.h"

#include <cuda_runtime_api.h>

namespace adasum {

template <typename Launch>
void CudaArithmetic::WithList(DType dtype, const std::vector<Piece>& pieces,
                              const Coefficients* coefficients, Launch launch) {
  if (pieces.empty()) return;
  const int64_t num_pieces = static_cast<int64_t>(pieces.size());
  const int64_t num_chunks = CountCudaChunks(pieces, ElementBytes(dtype));
  const int64_t list_bytes = CudaWorkBytes(num_pieces, num_chunks);
  const int64_t num_bytes =
      list_bytes + (coefficients == nullptr ? 0 : num_pieces * sizeof(Coefficients));
  Upload& upload = uploads_[turn_++ % kNumUploads];
  upload.used.Await(*limits_, rank_);
  char* host = static_cast<char*>(upload.host.Get(num_bytes));
  WriteCudaWork(pieces, ElementBytes(dtype), host);
  if (coefficients != nullptr) {
    Coefficients* of_piece = reinterpret_cast<Coefficients*>(host + list_bytes);
    for (const Piece& piece : pieces) *of_piece++ = coefficients[piece.segment];
  }
  char* device = static_cast<char*>(upload.device.Get(num_bytes));
  CheckCuda(cudaMemcpyAsync(device, host, num_bytes, cudaMemcpyHostToDevice, stream_->get()),
            "cudaMemcpyAsync");
  launch(CudaLaunch{dtype, CudaWorkAt(device, num_pieces, num_chunks), stream_->get()},
         reinterpret_cast<const Coefficients*>(device + list_bytes));
  upload.used.Record(stream_->get());
}

unsigned* CudaArithmetic::Arrivals(int64_t num_pieces) {
  const int64_t num_bytes = num_pieces * static_cast<int64_t>(sizeof(unsigned));
  unsigned* counters = static_cast<unsigned*>(arrivals_.Get(num_bytes));
  if (num_pieces > num_arrivals_) {
    CheckCuda(cudaMemsetAsync(counters, 0, num_bytes, stream_->get()), "cudaMemsetAsync");
    num_arrivals_ = num_pieces;
  }
  return counters;
}

void CudaArithmetic::AddMoments(DType dtype, const std::vector<Piece>& pieces, Moments* moments) {
  if (pieces.empty()) return;
  const int64_t num_bytes = static_cast<int64_t>(pieces.size() * sizeof(Moments));
  Moments* on_host = static_cast<Moments*>(moments_on_host_.Get(num_bytes));
  WithList(dtype, pieces, nullptr, [&](const CudaLaunch& launch, const Coefficients*) {
    const int64_t partial_bytes = launch.work.num_chunks * static_cast<int64_t>(sizeof(Moments));
    Moments* of_piece = static_cast<Moments*>(moments_.Get(num_bytes));
    LaunchMoments(launch, {of_piece, static_cast<Moments*>(partials_.Get(partial_bytes)),
                           Arrivals(launch.work.num_pieces)});
    CheckCuda(cudaMemcpyAsync(on_host, of_piece, num_bytes, cudaMemcpyDeviceToHost, stream_->get()),
              "cudaMemcpyAsync");
  });
  moments_there_.Record(stream_->get());
  moments_there_.Await(*limits_, rank_);
  for (const Piece& piece : pieces) {
    Moments& of_segment = moments[piece.segment];
    of_segment.dot += on_host->dot;
    of_segment.left_norm2 += on_host->left_norm2;
    of_segment.right_norm2 += on_host->right_norm2;
    ++on_host;
  }
}

void CudaArithmetic::Combine(DType dtype, const std::vector<Piece>& pieces,
                             const Coefficients* coefficients) {
  WithList(dtype, pieces, coefficients, [](const CudaLaunch& launch, const Coefficients* of_piece) {
    LaunchCombine(launch, of_piece);
  });
  CopyResults(dtype, pieces);
}

void CudaArithmetic::Add(DType dtype, const std::vector<Piece>& pieces) {
  WithList(dtype, pieces, nullptr,
           [](const CudaLaunch& launch, const Coefficients*) { LaunchAdd(launch); });
  CopyResults(dtype, pieces);
}

void CudaArithmetic::LogicalAnd(const std::vector<Piece>& pieces) {
  WithList(DType::kBool, pieces, nullptr,
           [](const CudaLaunch& launch, const Coefficients*) { LaunchLogicalAnd(launch); });
  CopyResults(DType::kBool, pieces);
}

void CudaArithmetic::Divide(DType dtype, const std::vector<Piece>& pieces, int64_t divisor) {
  std::vector<Piece> in_place = pieces;
  for (Piece& piece : in_place) piece.left = piece.out;
  WithList(dtype, in_place, nullptr,
           [=](const CudaLaunch& launch, const Coefficients*) { LaunchDivide(launch, divisor); });
  CopyResults(dtype, pieces);
}

void CudaArithmetic::Copy(void* to, const void* from, int64_t num_bytes) {
  if (num_bytes == 0) return;
  CheckCuda(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDeviceToDevice, stream_->get()),
            "cudaMemcpyAsync");
}

void CudaArithmetic::Deliver(void* to, const void* from, int64_t num_bytes) {
  Copy(to, from, num_bytes);
}

void CudaArithmetic::CopyPieces(DType dtype, const std::vector<Piece>& pieces) {
  WithList(dtype, pieces, nullptr,
           [](const CudaLaunch& launch, const Coefficients*) { LaunchCopy(launch); });
}

void CudaArithmetic::DeliverPieces(DType dtype, const std::vector<Piece>& pieces) {
  CopyPieces(dtype, pieces);
}

void CudaArithmetic::CopyResults(DType dtype, const std::vector<Piece>& pieces) {
  std::vector<Piece> copies;
  for (const Piece& piece : pieces) {
    if (piece.copy == nullptr) continue;
    copies.push_back({piece.segment, piece.out, nullptr, piece.copy, nullptr, piece.num_elements});
  }
  CopyPieces(dtype, copies);
}

}  // namespace adasum
