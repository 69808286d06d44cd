#include "cc/transport/thread_transport.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>

#include "cc/core/counted_time.h"
#include "cc/core/error.h"
#include "cc/core/numbers.h"

namespace adasum {
namespace {

// What is sent may lie on the sender's stack, and be gone when a wait of it throws.
class Withdrawal {
 public:
  Withdrawal(ThreadHub* hub, int from, int to) : hub_(hub), from_(from), to_(to) {}
  ~Withdrawal() { hub_->Withdraw(from_, to_); }
  Withdrawal(const Withdrawal&) = delete;
  Withdrawal& operator=(const Withdrawal&) = delete;

 private:
  ThreadHub* const hub_;
  const int from_, to_;
};

}  // namespace

ThreadHub::ThreadHub(int size, const WaitControl& waits) : waits_(waits) {
  for (int rank = 0; rank < size; ++rank) {
    inboxes_.push_back(std::make_unique<Inbox>());
    inboxes_.back()->from.resize(size);
  }
}

void ThreadHub::AwaitFull(Inbox& inbox, std::unique_lock<std::mutex>& lock, int from,
                          bool is_full) {
  // Woken so often to see whether the communicator was closed meanwhile, or the wait interrupted.
  constexpr auto kLook = std::chrono::milliseconds(50);
  CountedTime time(CountedTime::Clock::now());
  while (inbox.from[from].is_full != is_full) {
    waits_.cancellation.ThrowIfCancelled("leaf", from);
    if (IsInterrupted()) throw InterruptedError();
    inbox.changed.wait_for(lock, kLook);
    const double waited = Seconds(time.At(CountedTime::Clock::now()));
    if (inbox.from[from].is_full != is_full && waited > waits_.timeouts.silence_seconds) {
      throw Error(ErrorCode::kDeadlineExceeded,
                  "Waited " + InSeconds(waits_.timeouts.silence_seconds) +
                      " for another replica of this process, leaf " + std::to_string(from) +
                      ". Look at what it does, or set a longer TF_ADASUM_TIMEOUT_SECONDS.");
    }
  }
}

void ThreadHub::Offer(int from, int to, const void* bytes, int64_t num_bytes) {
  Inbox& inbox = *inboxes_[to];
  {
    std::unique_lock<std::mutex> lock(inbox.mutex);
    AwaitFull(inbox, lock, from, false);
    inbox.from[from] = {bytes, num_bytes, true, false};
  }
  inbox.changed.notify_all();
}

bool ThreadHub::HasOffer(int to) {
  Inbox& inbox = *inboxes_[to];
  std::lock_guard<std::mutex> lock(inbox.mutex);
  return std::any_of(inbox.from.begin(), inbox.from.end(),
                     [](const Message& message) { return message.is_full; });
}

const void* ThreadHub::Take(int from, int to, int64_t num_bytes) {
  Inbox& inbox = *inboxes_[to];
  std::unique_lock<std::mutex> lock(inbox.mutex);
  AwaitFull(inbox, lock, from, true);
  Message& message = inbox.from[from];
  if (message.num_bytes != num_bytes) {
    throw Error(ErrorCode::kInternal, "Expected " + std::to_string(num_bytes) +
                                          " bytes from leaf " + std::to_string(from) +
                                          ". Received: " + std::to_string(message.num_bytes));
  }
  message.is_taken = true;
  return message.bytes;
}

void ThreadHub::Release(int from, int to) {
  Inbox& inbox = *inboxes_[to];
  {
    std::lock_guard<std::mutex> lock(inbox.mutex);
    inbox.from[from].is_full = false;
  }
  inbox.changed.notify_all();
}

void ThreadHub::AwaitRelease(int from, int to) {
  Inbox& inbox = *inboxes_[to];
  std::unique_lock<std::mutex> lock(inbox.mutex);
  AwaitFull(inbox, lock, from, false);
}

void ThreadHub::Withdraw(int from, int to) {
  Inbox& inbox = *inboxes_[to];
  std::unique_lock<std::mutex> lock(inbox.mutex);
  Message& message = inbox.from[from];
  inbox.changed.wait(lock, [&] { return !message.is_full || !message.is_taken; });
  message.is_full = false;
}

void ThreadHub::Wake() {
  for (const std::unique_ptr<Inbox>& inbox : inboxes_) {
    // Whoever has looked in vain waits by now.
    {
      std::lock_guard<std::mutex> lock(inbox->mutex);
    }
    inbox->changed.notify_all();
  }
}

void ThreadTransport::SendRecv(const Send& send, const Recv& recv) {
  std::optional<Withdrawal> withdrawal;
  if (send.num_bytes > 0) {
    hub_->Offer(rank_, send.peer, send.bytes, send.num_bytes);
    withdrawal.emplace(hub_, rank_, send.peer);
  }
  if (recv.num_bytes > 0) {
    std::memcpy(recv.bytes, hub_->Take(recv.peer, rank_, recv.num_bytes), recv.num_bytes);
    hub_->Release(recv.peer, rank_);
  }
  if (send.num_bytes > 0) hub_->AwaitRelease(rank_, send.peer);
}

const void* ThreadTransport::Exchange(const Send& send, const Recv& recv) {
  if (send.num_bytes > 0) hub_->Offer(rank_, send.peer, send.bytes, send.num_bytes);
  if (recv.num_bytes == 0) return recv.bytes;
  const void* bytes = hub_->Take(recv.peer, rank_, recv.num_bytes);
  hub_->Release(recv.peer, rank_);
  return bytes;
}

}  // namespace adasum
