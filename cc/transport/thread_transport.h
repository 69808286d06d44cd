// Leaves of one process as threads: for simulate(), for several replicas per process, for tests.
#ifndef ADASUM_TRANSPORT_THREAD_TRANSPORT_H_
#define ADASUM_TRANSPORT_THREAD_TRANSPORT_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "cc/core/backoff.h"
#include "cc/core/transport.h"

namespace adasum {

// Where `size` threads meet. Every pair (from, to) has one slot for one offered message.
class ThreadHub {
 public:
  // `waits` must outlive the hub.
  ThreadHub(int size, const WaitControl& waits);

  int size() const { return static_cast<int>(inboxes_.size()); }

  // Offers bytes to `to`. The previous offer between the two must have been taken and released.
  void Offer(int from, int to, const void* bytes, int64_t num_bytes);
  // Waits for the offer and returns its address; throws Internal if its size is another.
  const void* Take(int from, int to, int64_t num_bytes);
  // The receiver has done with what it took: the slot is free again.
  void Release(int from, int to);
  // Waits until what was offered has been released.
  void AwaitRelease(int from, int to);
  // Takes back what was offered, for one who leaves without having waited. Nobody reads it then;
  // who has taken it already is waited for, since that copies it and waits for nobody.
  void Withdraw(int from, int to);
  // Whether anything that was offered to `to` was not taken; never waits long.
  bool HasOffer(int to);
  // Has all that wait look at once whether they are to give up.
  void Wake();

 private:
  struct Message {
    const void* bytes = nullptr;
    int64_t num_bytes = 0;
    bool is_full = false, is_taken = false;
  };
  struct Inbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Message> from;
  };

  // Waits on `inbox` until the message from `from` is full, or is empty.
  void AwaitFull(Inbox& inbox, std::unique_lock<std::mutex>& lock, int from, bool is_full);

  const WaitControl& waits_;
  std::vector<std::unique_ptr<Inbox>> inboxes_;
};

class ThreadTransport : public Transport {
 public:
  // `hub` must outlive the transport.
  ThreadTransport(ThreadHub* hub, int rank) : hub_(hub), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }
  void SendRecv(const Send& send, const Recv& recv) override;
  bool CanRead(int) const override { return true; }
  int64_t ShortBytes() const override { return kShortBytes; }
  bool HasArrived() override { return hub_->HasOffer(rank_); }
  int64_t ChunkBytes(int) const override { return kCachedBytes; }
  // Hands over addresses; nothing is copied.
  const void* Exchange(const Send& send, const Recv& recv) override;

 private:
  ThreadHub* hub_;
  int rank_;
};

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_THREAD_TRANSPORT_H_
