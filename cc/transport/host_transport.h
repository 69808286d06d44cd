// Shared memory between ranks of one host, MPI between hosts.
#ifndef ADASUM_TRANSPORT_HOST_TRANSPORT_H_
#define ADASUM_TRANSPORT_HOST_TRANSPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "cc/core/transport.h"
#include "cc/transport/mpi_transport.h"
#include "cc/transport/shm_transport.h"

namespace adasum {

class HostTransport : public Transport {
 public:
  // What ranks of a host share, where they can.
  struct Wanted {
    bool memory;
    bool tensors;       // that lie in shared memory
    bool cross_memory;  // each other's whole memory, to copy from and to
  };
  // Collective over `mpi`. `hosts` names the host of every rank. Returns `mpi` itself where shared
  // memory serves nobody, or where one rank doesn't have it (another process namespace) or doesn't
  // want it, so that all ranks take the same path.
  static std::unique_ptr<Transport> Make(std::unique_ptr<MpiTransport> mpi,
                                         const std::vector<std::string>& hosts,
                                         const WaitControl& waits, Wanted wanted);

  int rank() const override { return mpi_->rank(); }
  int size() const override { return mpi_->size(); }
  void SendRecv(const Send& send, const Recv& recv) override {
    Await(send, recv, MpiTransport::Memory::kOwnIfShort);
  }
  const void* Exchange(const Send& send, const Recv& recv) override;
  bool CanRead(int peer) const override { return IsShared(peer, 0); }
  int64_t ShortBytes() const override { return kShortBytes; }
  int64_t SwapBytes() const override { return shm_->size() == size() ? shm_->SwapBytes() : 0; }
  void SwapWithAll(const void* bytes, int64_t num_bytes, char* received,
                   int64_t* num_received) override {
    shm_->SwapWithAll(bytes, num_bytes, received, num_received);
  }
  // Blocks are short where ranks share memory (blocks.h), and the arithmetic on one part of a block
  // takes place while the next is on its way.
  int64_t ChunkBytes(int peer) const override {
    return IsShared(peer, 0) ? shm_->ChunkBytes(index_on_host_[peer]) : kCachedBytes;
  }
  void Post(const Send& send, const Recv& recv) override;
  int64_t MostPosted(int peer) const override {
    return IsShared(peer, 0) ? 0 : mpi_->MostPosted(peer);
  }
  // By MPI, also between ranks that share memory.
  std::unique_ptr<Transfer> Start(const Send& send) override { return mpi_->Start(send); }
  std::unique_ptr<Transfer> Start(const Recv& recv) override { return mpi_->Start(recv); }
  bool TakesDeviceMemory(int peer) const override {
    return !IsShared(peer, 0) && mpi_->TakesDeviceMemory(peer);
  }
  bool HasArrived() override { return shm_->HasArrived() || mpi_->HasArrived(); }
  bool HasAbandoned() const override { return mpi_->HasAbandoned() || shm_->HasAbandoned(); }
  bool SharesTensors(int peer) const override {
    return IsShared(peer, 0) && shm_->SharesTensors(index_on_host_[peer]);
  }
  int64_t Locate(const void* bytes, int64_t num_bytes) const override {
    return shm_->Locate(bytes, num_bytes);
  }
  void* Located(int peer, int64_t location, int64_t num_bytes) override {
    return shm_->Located(index_on_host_[peer], location, num_bytes);
  }
  bool CopiesTensors(int peer) const override {
    return IsShared(peer, 0) && shm_->CopiesTensors(index_on_host_[peer]);
  }
  bool LetsCopy(const std::vector<const void*>& tensors) const override {
    return shm_->LetsCopy(tensors);
  }
  void Fetch(int peer, const std::vector<RemoteBytes>& parts) override {
    shm_->Fetch(index_on_host_[peer], parts);
  }
  void Store(int peer, const std::vector<RemoteBytes>& parts) override {
    shm_->Store(index_on_host_[peer], parts);
  }
  void LendTensors(bool are_lent) override { shm_->LendTensors(are_lent); }
  void Conclude(const std::vector<int>& peers, int64_t num_bytes) override;
  void Leave() override {
    shm_->Leave();
    mpi_->Leave();
  }
  bool HasLeft(int peer) override {
    return IsShared(peer, 0) ? shm_->HasLeft(index_on_host_[peer]) : mpi_->HasLeft(peer);
  }
  int WorldRank(int peer) const override { return mpi_->WorldRank(peer); }
  bool requires_workspace() const override { return true; }
  void Begin() override { shm_->Begin(); }
  void* Workspace(int64_t num_bytes) override { return shm_->Workspace(num_bytes); }

 private:
  HostTransport(std::unique_ptr<MpiTransport> mpi, std::unique_ptr<ShmTransport> shm,
                std::vector<int> index_on_host, const WaitControl& waits)
      : mpi_(std::move(mpi)),
        shm_(std::move(shm)),
        index_on_host_(std::move(index_on_host)),
        waits_(waits) {}

  void Await(const Send& send, const Recv& recv, MpiTransport::Memory memory);
  // Lanes other than 0 may be used by several threads at once, which only MPI allows. Leaves have
  // shared memory of their own (host_leaves.h).
  bool IsShared(int peer, int lane) const { return lane == 0 && index_on_host_[peer] >= 0; }

  std::unique_ptr<MpiTransport> mpi_;
  std::unique_ptr<ShmTransport> shm_;
  std::vector<int> index_on_host_;  // of each rank, in shm_; -1 on other hosts
  const WaitControl& waits_;
};

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_HOST_TRANSPORT_H_
