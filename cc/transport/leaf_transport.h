// The leaves of a group of processes of which some have several replicas: see LeafNumbers.
#ifndef ADASUM_TRANSPORT_LEAF_TRANSPORT_H_
#define ADASUM_TRANSPORT_LEAF_TRANSPORT_H_

#include <vector>

#include "cc/core/leaf_numbers.h"
#include "cc/transport/host_leaves.h"
#include "cc/transport/thread_transport.h"

namespace adasum {

// Leaves of this host talk through shared memory; where there is none, those of this process talk
// through the hub. All others talk through the processes' transport, each pair of leaves in a lane
// of its own; it must be usable from several threads.
class LeafTransport : public Transport {
 public:
  // `hub` has one slot per leaf of this process; `host` may be null. All must outlive this.
  LeafTransport(Transport* processes, ThreadHub* hub, HostLeaves* host, const LeafNumbers* numbers,
                int replica)
      : processes_(processes),
        local_(hub, replica),
        host_(host),
        numbers_(*numbers),
        replica_(replica) {}

  int rank() const override { return numbers_.FirstOf(processes_->rank()) + replica_; }
  int size() const override { return numbers_.num_leaves(); }
  // Sender and receiver must be met in the same way, and be one but in shared memory.
  void SendRecv(const Send& send, const Recv& recv) override;
  int WorldRank(int peer) const override { return processes_->WorldRank(numbers_.RankOf(peer)); }
  bool CanRead(int peer) const override { return host_ ? IndexOnHost(peer) >= 0 : IsLocal(peer); }
  int64_t ShortBytes() const override { return kShortBytes; }
  int64_t ChunkBytes(int peer) const override {
    return CanRead(peer) ? kCachedBytes : kMessageBytes;
  }
  // Also where this is its process's only leaf, which reads nobody's memory without shared memory.
  bool AnyCanRead(const std::vector<int>& leaves) const override;
  const void* Exchange(const Send& send, const Recv& recv) override;
  bool TakesDeviceMemory(int peer) const override {
    return !CanRead(peer) && processes_->TakesDeviceMemory(numbers_.RankOf(peer));
  }
  bool requires_workspace() const override { return host_ != nullptr; }
  void* Workspace(int64_t num_bytes) override { return host_->end(replica_).Workspace(num_bytes); }

 private:
  bool IsLocal(int leaf) const { return numbers_.RankOf(leaf) == processes_->rank(); }
  // In shared memory; -1 on other hosts.
  int IndexOnHost(int leaf) const {
    return host_->IndexOnHost(numbers_.RankOf(leaf), numbers_.ReplicaOf(leaf));
  }
  // Lane 0 stays with the processes themselves.
  int Lane(int from_leaf, int to_leaf) const {
    return 1 + numbers_.ReplicaOf(from_leaf) * numbers_.most_replicas() +
           numbers_.ReplicaOf(to_leaf);
  }
  // One peer of the exchange.
  static int Peer(const Send& send, const Recv& recv) {
    return recv.num_bytes > 0 ? recv.peer : send.peer;
  }
  // The message as it goes through shared memory, or through the hub.
  template <typename Message>
  Message Near(Message message) const {
    if (message.num_bytes == 0) return {0, nullptr, 0};
    message.peer = host_ ? IndexOnHost(message.peer) : numbers_.ReplicaOf(message.peer);
    return message;
  }
  // The message as the processes' transport knows it, between the leaves `from` and `to`.
  template <typename Message>
  Message Far(Message message, int from, int to) const {
    message.peer = numbers_.RankOf(message.peer);
    message.lane = Lane(from, to);
    return message;
  }
  Transport& NearWire() { return host_ ? static_cast<Transport&>(host_->end(replica_)) : local_; }

  Transport* processes_;
  ThreadTransport local_;
  HostLeaves* host_;
  const LeafNumbers& numbers_;
  int replica_;
};

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_LEAF_TRANSPORT_H_
