// The leaves of a group of processes that have several replicas each: leaf = rank * L + r.
#ifndef ADASUM_TRANSPORT_LEAF_TRANSPORT_H_
#define ADASUM_TRANSPORT_LEAF_TRANSPORT_H_

#include "cc/transport/thread_transport.h"

namespace adasum {

// Leaves of this process talk through the hub, others through the processes' transport, each pair
// of leaves in a lane of its own. The processes' transport must be usable from several threads.
class LeafTransport : public Transport {
 public:
  // `hub` has one place per leaf of this process; `processes` and `hub` must outlive this.
  LeafTransport(Transport* processes, ThreadHub* hub, int replica)
      : processes_(processes),
        local_(hub, replica),
        num_replicas_(hub->size()),
        replica_(replica) {}

  int rank() const override { return processes_->rank() * num_replicas_ + replica_; }
  int size() const override { return processes_->size() * num_replicas_; }
  // Sender and receiver must be the same peer, or one side empty.
  void SendRecv(const Send& send, const Recv& recv) override;
  bool CanRead(int peer) const override { return IsLocal(peer); }
  int64_t ShortBytes() const override { return kShortBytes; }
  int64_t StepBytes(int peer) const override {
    return IsLocal(peer) ? local_.StepBytes(peer % num_replicas_) : kMessageBytes;
  }
  const void* Exchange(const Send& send, const Recv& recv) override;
  bool TakesDeviceMemory(int peer) const override {
    return !IsLocal(peer) && processes_->TakesDeviceMemory(peer / num_replicas_);
  }

 private:
  bool IsLocal(int leaf) const { return leaf / num_replicas_ == processes_->rank(); }
  // Lane 0 stays with the processes themselves.
  int Lane(int from_leaf, int to_leaf) const {
    return 1 + (from_leaf % num_replicas_) * num_replicas_ + to_leaf % num_replicas_;
  }
  // The one peer of the exchange.
  static int Peer(const Send& send, const Recv& recv) {
    return recv.num_bytes > 0 ? recv.peer : send.peer;
  }

  Transport* processes_;
  ThreadTransport local_;
  int num_replicas_;
  int replica_;
};

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_LEAF_TRANSPORT_H_
