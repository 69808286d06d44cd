// The leaves of a group of processes that have several replicas each: leaf = rank * L + r.
#ifndef ADASUM_TRANSPORT_LEAF_TRANSPORT_H_
#define ADASUM_TRANSPORT_LEAF_TRANSPORT_H_

#include "cc/transport/host_leaves.h"
#include "cc/transport/thread_transport.h"

namespace adasum {

// Leaves of this host talk through shared memory; where there is none, those of this process talk
// through the hub. All others talk through the processes' transport, each pair of leaves in a lane
// of its own; it must be usable from several threads.
class LeafTransport : public Transport {
 public:
  // `hub` has one slot per leaf of this process; `host` may be null. All must outlive this.
  LeafTransport(Transport* processes, ThreadHub* hub, HostLeaves* host, int replica)
      : processes_(processes),
        local_(hub, replica),
        host_(host),
        num_replicas_(hub->size()),
        replica_(replica) {}

  int rank() const override { return processes_->rank() * num_replicas_ + replica_; }
  int size() const override { return processes_->size() * num_replicas_; }
  // Sender and receiver must be met in the same way, and be one but in shared memory.
  void SendRecv(const Send& send, const Recv& recv) override;
  bool CanRead(int peer) const override { return host_ ? IndexOnHost(peer) >= 0 : IsLocal(peer); }
  int64_t ShortBytes() const override { return kShortBytes; }
  int64_t ChunkBytes(int peer) const override {
    return CanRead(peer) ? kCachedBytes : kMessageBytes;
  }
  const void* Exchange(const Send& send, const Recv& recv) override;
  bool TakesDeviceMemory(int peer) const override {
    return !CanRead(peer) && processes_->TakesDeviceMemory(peer / num_replicas_);
  }
  bool requires_workspace() const override { return host_ != nullptr; }
  void* Workspace(int64_t num_bytes) override { return host_->end(replica_).Workspace(num_bytes); }

 private:
  bool IsLocal(int leaf) const { return leaf / num_replicas_ == processes_->rank(); }
  // In shared memory; -1 on other hosts.
  int IndexOnHost(int leaf) const {
    return host_->IndexOnHost(leaf / num_replicas_, leaf % num_replicas_);
  }
  // Lane 0 stays with the processes themselves.
  int Lane(int from_leaf, int to_leaf) const {
    return 1 + (from_leaf % num_replicas_) * num_replicas_ + to_leaf % num_replicas_;
  }
  // One peer of the exchange.
  static int Peer(const Send& send, const Recv& recv) {
    return recv.num_bytes > 0 ? recv.peer : send.peer;
  }
  // The message as it goes through shared memory, or through the hub.
  template <typename Message>
  Message Near(Message message) const {
    if (message.num_bytes == 0) return {0, nullptr, 0};
    message.peer = host_ ? IndexOnHost(message.peer) : message.peer % num_replicas_;
    return message;
  }
  // The message as the processes' transport knows it, between the leaves `from` and `to`.
  template <typename Message>
  Message Far(Message message, int from, int to) const {
    message.peer /= num_replicas_;
    message.lane = Lane(from, to);
    return message;
  }
  Transport& NearWire() { return host_ ? static_cast<Transport&>(host_->end(replica_)) : local_; }

  Transport* processes_;
  ThreadTransport local_;
  HostLeaves* host_;
  int num_replicas_;
  int replica_;
};

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_LEAF_TRANSPORT_H_
