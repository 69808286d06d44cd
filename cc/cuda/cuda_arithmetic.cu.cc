#include "cc/cuda/cuda_arithmetic.cu.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

namespace adasum {
namespace {

// Buffers that grow are freed, and cudaFree waits for the device: so they grow seldom.
int64_t RoomFor(int64_t num_bytes) {
  int64_t room = 4096;
  while (room < num_bytes) room *= 2;
  return room;
}

}  // namespace

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
  Collect(&upload);
  char* host = static_cast<char*>(upload.host.Get(RoomFor(num_bytes)));
  WriteCudaWork(pieces, ElementBytes(dtype), host);
  if (coefficients != nullptr) {
    Coefficients* of_piece = reinterpret_cast<Coefficients*>(host + list_bytes);
    for (const Piece& piece : pieces) *of_piece++ = coefficients[piece.segment];
  }
  char* device = static_cast<char*>(upload.device.Get(RoomFor(num_bytes)));
  CheckCuda(cudaMemcpyAsync(device, host, num_bytes, cudaMemcpyHostToDevice, stream_->get()),
            "cudaMemcpyAsync");
  launch(List{{dtype, CudaWorkAt(device, num_pieces, num_chunks), stream_->get()},
              reinterpret_cast<const Coefficients*>(device + list_bytes),
              &upload});
  upload.used.Record(stream_->get());
}

void CudaArithmetic::Reserve(int64_t num_pieces, int64_t num_bytes) {
  num_pieces = std::max(num_pieces, std::exchange(reserved_pieces_, 0));
  num_bytes = std::max(num_bytes, std::exchange(reserved_bytes_, 0));
  // Each piece may have one that is not full.
  const int64_t num_chunks = num_bytes / kCudaChunkBytes + num_pieces;
  const int64_t list_bytes = CudaWorkBytes(num_pieces, num_chunks) +
                             num_pieces * static_cast<int64_t>(sizeof(Coefficients));
  const int64_t moment_bytes = RoomFor(num_pieces * static_cast<int64_t>(sizeof(Moments)));
  for (Upload& upload : uploads_) {
    upload.host.Get(RoomFor(list_bytes));
    upload.device.Get(RoomFor(list_bytes));
    upload.moments.Get(moment_bytes);
  }
  moments_.Get(moment_bytes);
  partials_.Get(RoomFor(num_chunks * static_cast<int64_t>(sizeof(Moments))));
  Arrivals(num_pieces);
  reserved_pieces_ = num_pieces;
  reserved_bytes_ = num_bytes;
}

unsigned* CudaArithmetic::Arrivals(int64_t num_pieces) {
  const int64_t num_bytes = num_pieces * static_cast<int64_t>(sizeof(unsigned));
  const bool grows = num_pieces > num_arrivals_;
  if (grows) num_arrivals_ = 0;  // should there be no more, the old ones are gone
  unsigned* counters = static_cast<unsigned*>(arrivals_.Get(num_bytes));
  if (grows) {
    CheckCuda(cudaMemsetAsync(counters, 0, num_bytes, stream_->get()), "cudaMemsetAsync");
    num_arrivals_ = num_pieces;
  }
  return counters;
}

void CudaArithmetic::AddMoments(DType dtype, const std::vector<Piece>& pieces, Moments* moments) {
  WithList(dtype, pieces, nullptr, [&](const List& list) {
    const CudaWork& work = list.launch.work;
    const int64_t num_bytes = work.num_pieces * static_cast<int64_t>(sizeof(Moments));
    const int64_t partial_bytes = work.num_chunks * static_cast<int64_t>(sizeof(Moments));
    Moments* of_piece = static_cast<Moments*>(moments_.Get(RoomFor(num_bytes)));
    LaunchMoments(list.launch,
                  {of_piece, static_cast<Moments*>(partials_.Get(RoomFor(partial_bytes))),
                   Arrivals(work.num_pieces)});
    Upload& upload = *list.upload;
    CheckCuda(cudaMemcpyAsync(upload.moments.Get(RoomFor(num_bytes)), of_piece, num_bytes,
                              cudaMemcpyDeviceToHost, stream_->get()),
              "cudaMemcpyAsync");
    upload.segments.clear();
    for (const Piece& piece : pieces) upload.segments.push_back(piece.segment);
    upload.sums = moments;
  });
}

void CudaArithmetic::AwaitMoments() {
  // The next one of the ring is the oldest.
  for (int64_t i = 0; i < kNumUploads; ++i) {
    Upload& upload = uploads_[(turn_ + i) % kNumUploads];
    if (upload.sums != nullptr) Collect(&upload);
  }
}

void CudaArithmetic::DropMoments() {
  for (Upload& upload : uploads_) upload.sums = nullptr;
}

void CudaArithmetic::Collect(Upload* upload) {
  upload->used.Await(*waits_, rank_);
  if (upload->sums == nullptr) return;
  const int64_t num_bytes = static_cast<int64_t>(upload->segments.size() * sizeof(Moments));
  const Moments* of_piece = static_cast<const Moments*>(upload->moments.Get(num_bytes));
  for (int64_t segment : upload->segments) {
    Moments& sum = upload->sums[segment];
    sum.dot += of_piece->dot;
    sum.left_norm2 += of_piece->left_norm2;
    sum.right_norm2 += of_piece->right_norm2;
    ++of_piece;
  }
  upload->sums = nullptr;
}

void CudaArithmetic::Combine(DType dtype, const std::vector<Piece>& pieces,
                             const Coefficients* coefficients) {
  WithList(dtype, pieces, coefficients,
           [](const List& list) { LaunchCombine(list.launch, list.coefficients); });
}

void CudaArithmetic::Add(DType dtype, const std::vector<Piece>& pieces) {
  WithList(dtype, pieces, nullptr, [](const List& list) { LaunchAdd(list.launch); });
}

void CudaArithmetic::LogicalAnd(const std::vector<Piece>& pieces) {
  WithList(DType::kBool, pieces, nullptr, [](const List& list) { LaunchLogicalAnd(list.launch); });
}

void CudaArithmetic::Divide(DType dtype, const std::vector<Piece>& pieces, int64_t divisor) {
  std::vector<Piece> in_place = pieces;
  for (Piece& piece : in_place) piece.left = piece.out;
  WithList(dtype, in_place, nullptr, [=](const List& list) { LaunchDivide(list.launch, divisor); });
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
  WithList(dtype, pieces, nullptr, [](const List& list) { LaunchCopy(list.launch); });
}

void CudaArithmetic::DeliverPieces(DType dtype, const std::vector<Piece>& pieces) {
  CopyPieces(dtype, pieces);
}

}  // namespace adasum
