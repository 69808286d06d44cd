// A wire that counts.
#ifndef ADASUM_TESTS_CC_COUNTING_TRANSPORT_H_
#define ADASUM_TESTS_CC_COUNTING_TRANSPORT_H_

#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include "cc/core/transport.h"

namespace adasum {
namespace test {

// Counts what a leaf sends, and passes everything on, after what else is to happen before.
class CountingTransport : public Transport {
 public:
  explicit CountingTransport(Transport* inner, std::function<void()> before = nullptr)
      : inner_(*inner), before_(before ? std::move(before) : [] {}) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void SendRecv(const Send& send, const Recv& recv) override {
    before_();
    num_bytes += send.num_bytes;
    num_messages += send.num_bytes > 0;
    inner_.SendRecv(send, recv);
  }
  const void* Exchange(const Send& send, const Recv& recv) override {
    before_();
    num_bytes += send.num_bytes;
    num_messages += send.num_bytes > 0;
    return inner_.Exchange(send, recv);
  }
  void Post(const Send& send, const Recv& recv) override { inner_.Post(send, recv); }
  int64_t MostPosted(int peer) const override { return inner_.MostPosted(peer); }
  void PairwiseBarrier(int peer) override {
    before_();
    inner_.PairwiseBarrier(peer);
  }
  bool CanRead(int peer) const override { return inner_.CanRead(peer); }
  int64_t ShortBytes() const override { return inner_.ShortBytes(); }
  int64_t ChunkBytes(int peer) const override { return inner_.ChunkBytes(peer); }
  bool TakesDeviceMemory(int peer) const override { return inner_.TakesDeviceMemory(peer); }
  bool requires_workspace() const override { return inner_.requires_workspace(); }
  void* Workspace(int64_t bytes) override { return inner_.Workspace(bytes); }
  bool SharesTensors(int peer) const override { return inner_.SharesTensors(peer); }
  int64_t Locate(const void* bytes, int64_t count) const override {
    return inner_.Locate(bytes, count);
  }
  void* Located(int peer, int64_t location, int64_t count) override {
    ++num_located;
    return inner_.Located(peer, location, count);
  }
  bool CopiesTensors(int peer) const override { return inner_.CopiesTensors(peer); }
  bool LetsCopy(const std::vector<const void*>& tensors) const override {
    return inner_.LetsCopy(tensors);
  }
  void Fetch(int peer, const std::vector<RemoteBytes>& parts) override {
    num_fetched += Bytes(parts);
    inner_.Fetch(peer, parts);
  }
  void Store(int peer, const std::vector<RemoteBytes>& parts) override {
    num_stored += Bytes(parts);
    inner_.Store(peer, parts);
  }
  bool HasAbandoned() const override { return inner_.HasAbandoned(); }
  void LendTensors(bool are_lent) override { inner_.LendTensors(are_lent); }

  int64_t num_bytes = 0;
  int64_t num_messages = 0;
  int64_t num_located = 0;  // tensors of peers that were read where they lie
  // Bytes from and to peers' processes.
  std::atomic<int64_t> num_fetched{0}, num_stored{0};

 private:
  static int64_t Bytes(const std::vector<RemoteBytes>& parts) {
    int64_t num_bytes = 0;
    for (const RemoteBytes& part : parts) num_bytes += part.num_bytes;
    return num_bytes;
  }

  Transport& inner_;
  std::function<void()> before_;
};

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_COUNTING_TRANSPORT_H_
