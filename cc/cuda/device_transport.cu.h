// The wire for device memory: to each peer by the way that the two agreed on.
#ifndef ADASUM_CUDA_DEVICE_TRANSPORT_CU_H_
#define ADASUM_CUDA_DEVICE_TRANSPORT_CU_H_

#include <string>
#include <vector>

#include "cc/core/transport.h"
#include "cc/cuda/announcements.cu.h"
#include "cc/cuda/peer_buffers.cu.h"
#include "cc/cuda/peer_paths.cu.h"
#include "cc/cuda/staging_transport.cu.h"

namespace adasum {

// What a leaf keeps between collectives for its exchanges. Destroyed in reverse order: the peers'
// buffers are closed before the own one is given back.
struct Exchanges {
  Exchanges(const Stream* stream, const WaitControl* waits, const CudaOptions& options)
      : paths(stream, waits, options), announcements(stream) {}

  ExportedBuffer buffer;
  PeerBuffers peer_buffers;
  PeerPaths paths;
  Staging staging;
  Announcements announcements;
  // The last time that all leaves agreed on everything: none if 0, else a number that only they
  // have, and how many they were.
  uint64_t meeting = 0;
  int num_leaves = 0;
};

// What a leaf brings along for a request, and all that may be short of.
class LeafMemory {
 public:
  virtual ~LeafMemory() = default;
  // Called once the ways to the peers are agreed; whether all that the request needs is there.
  virtual bool IsThere() const = 0;
  // Sees to it. Throws ResourceExhausted.
  virtual void Reserve() = 0;
};

// Messages leave when the leaf's stream has done all that was put on it before they were announced,
// or before now. So whoever hears from a peer knows three things: the peer's kernels have written
// what it sends, those before the announcement have read what they wanted of this leaf's memory,
// and whatever is launched from now on comes after both. That is all the synchronisation there is
// between devices and processes: kernels never wait for other ranks.
//
// What a peer still reads behind its announcement of a message nobody writes before another
// message: a chunk's moments and combination read what the chunk was sent, and that is written over
// when the same chunk's result comes back, announced behind its combination.
//
// For one request, made on all leaves.
class DeviceTransport : public Transport {
 public:
  // `wire` is the leaf's wire for host memory, `stream` where its kernels run. All must outlive
  // this.
  DeviceTransport(Transport* wire, Stream* stream, Exchanges* exchanges, const WaitControl* waits);

  // Before the first byte. Once, and again when anything has changed on any leaf, all agree on the
  // paths and see to their memory; else one small message each way shows that they need not.
  // Throws ResourceExhausted, on all leaves alike, if that of one, called `leaf`, falls short.
  void Open(const std::string& leaf, LeafMemory& memory);

  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  int WorldRank(int peer) const override { return wire_->WorldRank(peer); }
  // Of host memory: moments.
  void SendRecv(const Send& send, const Recv& recv) override { wire_->SendRecv(send, recv); }
  // Of device memory. What it returns is for kernels that are launched later.
  const void* Exchange(const Send& send, const Recv& recv) override;
  void Announce(int64_t num_exchanges) override { exchanges_->announcements.Add(num_exchanges); }
  void PairwiseBarrier(int peer) override;
  int64_t ChunkBytes(int peer) const override { return exchanges_->paths.To(peer).ChunkBytes(); }
  bool requires_workspace() const override { return exchanges_->paths.AnyIpc(); }
  void* Workspace(int64_t num_bytes) override { return exchanges_->buffer.Get(num_bytes); }

  // When the leaf's own results are there. Returns when no peer reads this leaf's memory any more,
  // which may be freed then, or written.
  void Finish();

 private:
  struct RemoteAddress;
  struct Outcome;

  const void* ExchangeAddresses(const PeerPath& path, const Send& send, const Recv& recv);
  RemoteAddress AddressOf(const PeerPath& path, const Send& send) const;
  // Of all that is in the leaf's stream.
  void AwaitKernels();
  void NoteReader(int peer);

  Transport* wire_;
  Stream* stream_;
  Exchanges* exchanges_;
  const WaitControl* waits_;
  StagingTransport staged_;
  std::vector<int>
      readers_;  // peers with which either side was shown memory, in the order of the first time
};

}  // namespace adasum

#endif  // ADASUM_CUDA_DEVICE_TRANSPORT_CU_H_
