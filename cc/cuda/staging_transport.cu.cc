#include "cc/cuda/staging_transport.cu.h"

#include <cuda_runtime_api.h>

#include <algorithm>

namespace adasum {
namespace {

constexpr int64_t kChunkBytes = Staging::kChunkBytes;

// Bytes of chunk number `chunk` of a message; none behind its end.
int64_t BytesOfChunk(int64_t num_bytes, int64_t chunk) {
  return std::clamp(num_bytes - chunk * kChunkBytes, int64_t{0}, kChunkBytes);
}

int Slot(int64_t chunk) { return static_cast<int>(chunk % Staging::kNumSlots); }

char* SlotOf(Scratch* slots, int64_t chunk) {
  char* all = static_cast<char*>(slots->Get(Staging::kNumSlots * kChunkBytes));
  return all + Slot(chunk) * kChunkBytes;
}

}  // namespace

void StagingTransport::StartOff(const Send& send, int64_t chunk) {
  const int64_t num_bytes = BytesOfChunk(send.num_bytes, chunk);
  if (num_bytes == 0) return;
  const char* from = static_cast<const char*>(send.bytes) + chunk * kChunkBytes;
  CheckCuda(cudaMemcpyAsync(SlotOf(&staging_->outgoing, chunk), from, num_bytes,
                            cudaMemcpyDeviceToHost, staging_->off.get()),
            "cudaMemcpyAsync");
  staging_->left[Slot(chunk)].Record(staging_->off.get());
}

void StagingTransport::StartOnto(const Recv& recv, int64_t chunk) {
  const int64_t num_bytes = BytesOfChunk(recv.num_bytes, chunk);
  if (num_bytes == 0) return;
  char* to = static_cast<char*>(recv.bytes) + chunk * kChunkBytes;
  CheckCuda(cudaMemcpyAsync(to, SlotOf(&staging_->incoming, chunk), num_bytes,
                            cudaMemcpyHostToDevice, staging_->onto.get()),
            "cudaMemcpyAsync");
  staging_->arrived[Slot(chunk)].Record(staging_->onto.get());
}

const void* StagingTransport::Exchange(const Send& send, const Recv& recv) {
  staging_->reached.Record(stream_->get());
  return ExchangeBehind(staging_->reached, send, recv);
}

const void* StagingTransport::ExchangeBehind(const Event& mark, const Send& send,
                                             const Recv& recv) {
  // Kernels before this may still write what is sent, and read where it is received.
  mark.Hold(staging_->off.get());
  mark.Hold(staging_->onto.get());
  const int64_t longest = std::max(send.num_bytes, recv.num_bytes);
  const int64_t num_chunks = (longest + kChunkBytes - 1) / kChunkBytes;
  for (int64_t chunk = 0; chunk < std::min<int64_t>(num_chunks, Staging::kNumSlots); ++chunk) {
    StartOff(send, chunk);
  }
  for (int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    const int64_t send_bytes = BytesOfChunk(send.num_bytes, chunk);
    const int64_t recv_bytes = BytesOfChunk(recv.num_bytes, chunk);
    if (send_bytes > 0) staging_->left[Slot(chunk)].Await(*waits_, WorldRank(rank()));
    if (recv_bytes > 0) staging_->arrived[Slot(chunk)].Await(*waits_, WorldRank(rank()));
    inner_->SendRecv({send.peer, SlotOf(&staging_->outgoing, chunk), send_bytes, send.lane},
                     {recv.peer, SlotOf(&staging_->incoming, chunk), recv_bytes, recv.lane});
    StartOnto(recv, chunk);
    StartOff(send, chunk + Staging::kNumSlots);
  }
  stream_->Follow(staging_->onto);
  return recv.bytes;
}

}  // namespace adasum
