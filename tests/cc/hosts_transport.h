// Ranks on several hosts, as far as one process can have them.
#ifndef ADASUM_TESTS_CC_HOSTS_TRANSPORT_H_
#define ADASUM_TESTS_CC_HOSTS_TRANSPORT_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "cc/core/transport.h"

namespace adasum {
namespace test {

// One rank's end: peers on its host through their shared memory, all others through messages.
class HostsTransport : public Transport {
 public:
  HostsTransport(Transport* all, Transport* host, std::vector<int> ranks)
      : all_(all), host_(host), ranks_(std::move(ranks)) {}

  int rank() const override { return all_->rank(); }
  int size() const override { return all_->size(); }
  void SendRecv(const Send& send, const Recv& recv) override {
    if (IndexOnHost(Peer(send, recv)) < 0) return all_->SendRecv(send, recv);
    host_->SendRecv(OnHost(send), OnHost(recv));
  }
  const void* Exchange(const Send& send, const Recv& recv) override {
    if (IndexOnHost(Peer(send, recv)) < 0) return all_->Exchange(send, recv);
    return host_->Exchange(OnHost(send), OnHost(recv));
  }
  bool CanRead(int peer) const override { return IndexOnHost(peer) >= 0; }
  int64_t ShortBytes() const override { return all_->ShortBytes(); }
  int64_t ChunkBytes(int peer) const override {
    return IndexOnHost(peer) < 0 ? all_->ChunkBytes(peer) : host_->ChunkBytes(IndexOnHost(peer));
  }
  bool requires_workspace() const override { return true; }
  void* Workspace(int64_t num_bytes) override { return host_->Workspace(num_bytes); }
  bool SharesTensors(int peer) const override {
    return IndexOnHost(peer) >= 0 && host_->SharesTensors(IndexOnHost(peer));
  }
  int64_t Locate(const void* bytes, int64_t num_bytes) const override {
    return host_->Locate(bytes, num_bytes);
  }
  void* Located(int peer, int64_t location, int64_t num_bytes) override {
    return host_->Located(IndexOnHost(peer), location, num_bytes);
  }
  bool CopiesTensors(int peer) const override {
    return IndexOnHost(peer) >= 0 && host_->CopiesTensors(IndexOnHost(peer));
  }
  bool LetsCopy(const std::vector<const void*>& tensors) const override {
    return host_->LetsCopy(tensors);
  }
  void Fetch(int peer, const std::vector<RemoteBytes>& parts) override {
    host_->Fetch(IndexOnHost(peer), parts);
  }
  void Store(int peer, const std::vector<RemoteBytes>& parts) override {
    host_->Store(IndexOnHost(peer), parts);
  }
  void LendTensors(bool are_lent) override { host_->LendTensors(are_lent); }

 private:
  static int Peer(const Send& send, const Recv& recv) {
    return recv.num_bytes > 0 ? recv.peer : send.peer;
  }
  int IndexOnHost(int rank) const {
    auto found = std::find(ranks_.begin(), ranks_.end(), rank);
    return found == ranks_.end() ? -1 : static_cast<int>(found - ranks_.begin());
  }
  template <typename Message>
  Message OnHost(Message message) const {
    message.peer = message.num_bytes > 0 ? IndexOnHost(message.peer) : 0;
    return message;
  }

  Transport* all_;
  Transport* host_;
  std::vector<int> ranks_;  // of this host
};

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_HOSTS_TRANSPORT_H_
