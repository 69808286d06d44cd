// A transport that notes its exchanges in a timeline.
#ifndef ADASUM_TRANSPORT_TRACED_TRANSPORT_H_
#define ADASUM_TRANSPORT_TRACED_TRANSPORT_H_

#include <memory>
#include <vector>

#include "cc/core/timeline.h"
#include "cc/core/transport.h"

namespace adasum {

// `inner` and `timeline` must outlive this.
class TracedTransport : public Transport {
 public:
  TracedTransport(Transport* inner, Timeline* timeline) : inner_(inner), timeline_(timeline) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  void SendRecv(const Send& send, const Recv& recv) override {
    TimelineSpan span(timeline_, "message", Peer(send, recv), send.num_bytes);
    inner_->SendRecv(send, recv);
  }
  int64_t SwapBytes() const override { return inner_->SwapBytes(); }
  void SwapWithAll(const void* bytes, int64_t num_bytes, char* received,
                   int64_t* num_received) override {
    TimelineSpan span(timeline_, "message to all", -1, num_bytes * (size() - 1));
    inner_->SwapWithAll(bytes, num_bytes, received, num_received);
  }
  const void* Exchange(const Send& send, const Recv& recv) override {
    TimelineSpan span(timeline_, "exchange", Peer(send, recv), send.num_bytes);
    return inner_->Exchange(send, recv);
  }
  void Post(const Send& send, const Recv& recv) override { inner_->Post(send, recv); }
  int64_t MostPosted(int peer) const override { return inner_->MostPosted(peer); }
  std::unique_ptr<Transfer> Start(const Send& send) override { return inner_->Start(send); }
  std::unique_ptr<Transfer> Start(const Recv& recv) override { return inner_->Start(recv); }
  void PairwiseBarrier(int peer) override {
    TimelineSpan span(timeline_, "barrier", peer, 0);
    inner_->PairwiseBarrier(peer);
  }
  bool CanRead(int peer) const override { return inner_->CanRead(peer); }
  bool AnyCanRead(const std::vector<int>& ranks) const override {
    return inner_->AnyCanRead(ranks);
  }
  bool HasArrived() override { return inner_->HasArrived(); }
  bool HasLeft(int peer) override { return inner_->HasLeft(peer); }
  int WorldRank(int peer) const override { return inner_->WorldRank(peer); }
  int64_t ShortBytes() const override { return inner_->ShortBytes(); }
  int64_t ChunkBytes(int peer) const override { return inner_->ChunkBytes(peer); }
  bool TakesDeviceMemory(int peer) const override { return inner_->TakesDeviceMemory(peer); }
  bool HasAbandoned() const override { return inner_->HasAbandoned(); }
  bool requires_workspace() const override { return inner_->requires_workspace(); }
  bool SharesTensors(int peer) const override { return inner_->SharesTensors(peer); }
  int64_t Locate(const void* bytes, int64_t num_bytes) const override {
    return inner_->Locate(bytes, num_bytes);
  }
  void* Located(int peer, int64_t location, int64_t num_bytes) override {
    return inner_->Located(peer, location, num_bytes);
  }
  bool CopiesTensors(int peer) const override { return inner_->CopiesTensors(peer); }
  bool LetsCopy(const std::vector<const void*>& tensors) const override {
    return inner_->LetsCopy(tensors);
  }
  void Fetch(int peer, const std::vector<RemoteBytes>& parts) override {
    TimelineSpan span(timeline_, "fetch", peer, Bytes(parts));
    inner_->Fetch(peer, parts);
  }
  void Store(int peer, const std::vector<RemoteBytes>& parts) override {
    TimelineSpan span(timeline_, "store", peer, Bytes(parts));
    inner_->Store(peer, parts);
  }
  void LendTensors(bool are_lent) override { inner_->LendTensors(are_lent); }
  void Begin() override { inner_->Begin(); }
  void* Workspace(int64_t num_bytes) override { return inner_->Workspace(num_bytes); }

 private:
  static int Peer(const Send& send, const Recv& recv) {
    return recv.num_bytes > 0 ? recv.peer : send.peer;
  }
  static int64_t Bytes(const std::vector<RemoteBytes>& parts) {
    int64_t num_bytes = 0;
    for (const RemoteBytes& part : parts) num_bytes += part.num_bytes;
    return num_bytes;
  }

  Transport* inner_;
  Timeline* timeline_;
};

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_TRACED_TRANSPORT_H_
