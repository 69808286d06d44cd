// By which way device memory goes to each peer: agreed by both, so that neither stands on a path
// alone.
#ifndef ADASUM_CUDA_PEER_PATHS_CU_H_
#define ADASUM_CUDA_PEER_PATHS_CU_H_

#include <map>

#include "cc/core/scratch.h"
#include "cc/core/transport.h"
#include "cc/cuda/peer_buffers.cu.h"
#include "cc/cuda/resources.cu.h"
#include "cc/engine/communicator_options.h"

namespace adasum {

struct PeerPath {
  enum Kind {
    kStaged,       // in chunks through pinned host memory and the host's wire
    kThisProcess,  // the peer is a leaf of this process: its addresses are valid here
    kIpc,          // the peer's exported memory is mapped here
    kWire,         // the host's wire takes device memory: MPI does it all
  };
  Kind kind = kStaged;
  bool is_same_device = false;
  int64_t wanted_chunk_bytes = 0;  // 0: what suits the way
  uint64_t agreed_with = 0;        // the peer's token; 0 as long as nothing is agreed

  // At a time. What has to be brought here comes in chunks, so that kernels work on one while the
  // next is on its way; what is read where it is needs none.
  int64_t ChunkBytes() const;
};

// Never 0, which stands for nobody.
uint64_t RandomToken();

// Of one leaf on one device, kept from request to request. One thread at a time.
class PeerPaths {
 public:
  // `stream` works on that device. Both must outlive this.
  PeerPaths(const Stream* stream, const WaitControl* waits, const CudaOptions& options);

  // The leaves of `wire`, the host's wire, find out how each pair that will exchange something is
  // to do it. A pair tries only when one of the two has not agreed with the other before; else a
  // small message each way shows that it need not. `buffer` is what this leaf will show; it is
  // overwritten.
  void Agree(Transport& wire, ExportedBuffer* buffer);

  // On all leaves: what was agreed where memory was short need not be the best way.
  void Forget() { paths_.clear(); }

  // Throws Internal for a peer that is none of the schedule's.
  const PeerPath& To(int peer) const;
  // Whether any peer wants what it reads to lie in exported memory.
  bool AnyIpc() const { return Any(PeerPath::kIpc); }
  bool Any(PeerPath::Kind kind) const;

 private:
  struct Hello;
  struct Description;

  void AgreeWith(int peer, Transport& wire, ExportedBuffer* buffer);
  Description Describe(ExportedBuffer* buffer, const Transport& wire, int peer);
  PeerPath::Kind Try(const Description& mine, const Description& theirs, int rank);
  bool CanRead(const Description& theirs, int rank);
  // The token's worth of bytes from or to device memory; returns when they are there.
  void Move(void* to, const void* from, cudaMemcpyKind direction, int rank);

  const uint64_t token_;  // of this leaf on this device
  const CudaOptions options_;
  const Stream* stream_;
  const WaitControl* waits_;
  std::map<int, PeerPath> paths_;
  Scratch probe_{ThePinnedMemory()};
  Event probed_;
};

}  // namespace adasum

#endif  // ADASUM_CUDA_PEER_PATHS_CU_H_
