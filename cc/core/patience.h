// How to wait: poll hot at first, then yield, then sleep, and give up at the limit.
#ifndef ADASUM_CORE_PATIENCE_H_
#define ADASUM_CORE_PATIENCE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "cc/core/error.h"

namespace adasum {

// The limits of every wait, and the flag by which a closing communicator ends them early.
// Shared by the transports of one communicator; outlives them.
struct WaitLimits {
  // A peer that says nothing for this long is taken for lost. TF_ADASUM_TIMEOUT_SECONDS.
  double silence_seconds = 600;
  // Ranks that wait for differently named requests give up after this. TF_ADASUM_MISMATCH_SECONDS.
  double mismatch_seconds = 60;
  // Polls before a wait yields its core: many where each rank of the host has one to itself, few
  // where ranks share them.
  int hot_pauses = 64;
  std::atomic<bool> cancelled{false};
  // A leaf of this process failed: what the others wait for will not come. Set and cleared by
  // whoever runs the leaves.
  std::atomic<bool> leaf_failed{false};
};

// Fills `limits` from the environment; throws InvalidArgument for a value that is no positive
// number.
void ReadWaitLimits(WaitLimits* limits);

// Throws Unavailable if waits are to end.
void ThrowIfCancelled(const WaitLimits& limits);

// WaitLimits::hot_pauses where so many threads of this host wait at the same time.
int HotPauses(int num_threads);

// Whether the calling thread was told to end its waits: a user pressed Ctrl-C while Python waits.
// Asked in every wait of more than milliseconds, so that it has to be quick. `ask` may be null.
void SetInterruptQuestion(bool (*ask)());
bool IsInterrupted();
Error InterruptedError();

// One wait. Call Pause() in a loop until the awaited thing is there.
class Patience {
 public:
  // `what` names the wait in the error; it must outlive this object.
  Patience(const WaitLimits& limits, const char* what, int peer)
      : limits_(limits), what_(what), peer_(peer) {}

  // Returns after a pause that grows from nothing to 200 microseconds, so that a wait of
  // microseconds costs no context switch and a wait of seconds costs no core. Throws
  // DeadlineExceeded past the limit, Unavailable once cancelled and Interrupted if the thread is.
  void Pause() {
    // The clock is read only once the wait is no longer hot: most waits end before.
    if (++num_pauses_ <= limits_.hot_pauses) return Relax();
    PauseCold();
  }

 private:
  static void Relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  void PauseCold();
  void Check(std::chrono::steady_clock::time_point now) const;

  const WaitLimits& limits_;
  const char* what_;
  int peer_;
  int64_t num_pauses_ = 0;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace adasum

#endif  // ADASUM_CORE_PATIENCE_H_
