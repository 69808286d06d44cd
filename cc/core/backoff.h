// How to wait: poll at first, then yield, then sleep, and give up after the timeout.
#ifndef ADASUM_CORE_BACKOFF_H_
#define ADASUM_CORE_BACKOFF_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "cc/core/counted_time.h"
#include "cc/core/error.h"

namespace adasum {

// How long a rank waits for others. Configuration.
struct Timeouts {
  // A peer that says nothing for this long is taken for lost.
  double silence_seconds = 600;
  // Ranks that wait for differently named requests give up after this.
  double mismatch_seconds = 60;
};

// Ends waits early. State that any thread may change.
class CancellationToken {
 public:
  // The communicator closes.
  void Cancel() { is_cancelled_.store(true); }
  void Reset() { is_cancelled_.store(false); }
  // A leaf of this process failed, and the others would wait for what will not come. For whoever
  // runs the leaves.
  void SetLeafFailed(bool has_failed) { leaf_failed_.store(has_failed); }

  // Throws Unavailable if waits are to end; the error names the "rank" or "leaf" that was awaited.
  void ThrowIfCancelled(const char* kind, int number) const;

 private:
  std::atomic<bool> is_cancelled_{false};
  std::atomic<bool> leaf_failed_{false};
};

// What the waits of one communicator go by. Its transports share it; it outlives them.
struct WaitControl {
  Timeouts timeouts;
  CancellationToken cancellation;
  // Polls before a wait yields its core: many where each rank of the host has one to itself, few
  // where ranks share them.
  int hot_pauses = 64;
};

// WaitControl::hot_pauses where so many threads of this host wait at the same time.
int HotPauses(int num_threads);

// Whether the calling thread was told to end its waits: a user pressed Ctrl-C while Python waits.
// Asked in every wait of more than milliseconds, so that it has to be quick. `ask` may be null.
void SetInterruptQuestion(bool (*ask)());
bool IsInterrupted();
Error InterruptedError();

// For a loop that looks at what another core writes.
inline void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class Transport;

// One wait. Call Pause() in a loop until the awaited thing is there, and Restart() if a part of it
// is.
class Backoff {
 public:
  // `what` names the wait in the error, and `rank`, of the world, whom it is for where nobody is
  // watched; `what` must outlive this object.
  Backoff(const WaitControl& waits, const char* what, int rank)
      : waits_(waits), what_(what), rank_(rank) {}

  // Ends the wait when the peer whose message is awaited, or the one who has to take this rank's,
  // has left (Transport::HasLeft).
  void WatchSender(Transport* transport, int peer) { sender_ = {transport, peer}; }
  void WatchReceiver(Transport* transport, int peer) { receiver_ = {transport, peer}; }
  // For when all has come, and when all was taken.
  void ForgetSender() { sender_ = {}; }
  void ForgetReceiver() { receiver_ = {}; }

  // Returns after a pause that grows from nothing to 100 microseconds, so that a wait of
  // microseconds costs no context switch and a wait of seconds costs no core. Throws
  // DeadlineExceeded past the timeout, Unavailable once cancelled or one who is watched has left,
  // and Interrupted if the thread is.
  void Pause() {
    // The clock is read only once the wait is no longer hot: most waits end before.
    if (++num_pauses_ <= waits_.hot_pauses) return Relax();
    PauseCold();
  }
  void Restart() { num_pauses_ = 0; }

 private:
  struct Watched {
    Transport* transport = nullptr;  // null for nobody
    int peer = 0;
  };

  void PauseCold();
  void Check(CountedTime::Clock::duration waited) const;
  void LookWhoHasLeft();
  int AwaitedRank() const;

  const WaitControl& waits_;
  const char* what_;
  int rank_;
  Watched sender_, receiver_;
  const Watched* left_ = nullptr;  // who has
  int64_t num_pauses_ = 0;
  CountedTime time_{{}};  // since the wait is no longer hot
};

}  // namespace adasum

#endif  // ADASUM_CORE_BACKOFF_H_
