// A wire for device memory over one for host memory: large messages go in chunks through pinned
// buffers, so that the copy off the device, the wire and the copy onto the device work at the same
// time.
#ifndef ADASUM_CUDA_STAGING_TRANSPORT_CU_H_
#define ADASUM_CUDA_STAGING_TRANSPORT_CU_H_

#include "cc/core/scratch.h"
#include "cc/core/transport.h"
#include "cc/cuda/resources.cu.h"

namespace adasum {

// What a leaf keeps between collectives for its exchanges.
struct Staging {
  static constexpr int64_t kChunkBytes = int64_t{1} << 20;
  // Enough that a copy each way and the wire never wait for a free slot.
  static constexpr int kNumSlots = 4;

  // Sees to the pinned memory.
  void Reserve() {
    outgoing.Get(kNumSlots * kChunkBytes);
    incoming.Get(kNumSlots * kChunkBytes);
  }

  Stream off;   // device to host
  Stream onto;  // to this device: from the host, or from another device
  Scratch outgoing{ThePinnedMemory()};
  Scratch incoming{ThePinnedMemory()};
  Event left[kNumSlots];     // the chunk is in the outgoing slot
  Event arrived[kNumSlots];  // the chunk is on the device, its incoming slot free
  Event reached;             // by the kernels, when an exchange began
};

class StagingTransport : public Transport {
 public:
  // `stream` is where the leaf's kernels run. All must outlive this.
  StagingTransport(Transport* inner, Stream* stream, Staging* staging, const WaitControl* waits)
      : inner_(inner), stream_(stream), staging_(staging), waits_(waits) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  int WorldRank(int peer) const override { return inner_->WorldRank(peer); }
  // Of host memory: moments.
  void SendRecv(const Send& send, const Recv& recv) override { inner_->SendRecv(send, recv); }
  // Of device memory. Kernels launched later find the received bytes; `send` is free on return.
  const void* Exchange(const Send& send, const Recv& recv) override;
  // The same, beside kernels that were launched after `mark`: none of them writes what is sent, or
  // has to do with where it is received.
  const void* ExchangeBehind(const Event& mark, const Send& send, const Recv& recv);

 private:
  void StartOff(const Send& send, int64_t chunk);
  void StartOnto(const Recv& recv, int64_t chunk);

  Transport* inner_;
  Stream* stream_;
  Staging* staging_;
  const WaitControl* waits_;
};

}  // namespace adasum

#endif  // ADASUM_CUDA_STAGING_TRANSPORT_CU_H_
