#include "cc/core/backoff.h"

#include <sched.h>

#include <thread>

#include "cc/core/error.h"
#include "cc/core/numbers.h"
#include "cc/core/transport.h"

namespace adasum {
namespace {

// The time after which a waiter sleeps in place of yielding.
constexpr auto kYieldFor = std::chrono::milliseconds(2);
constexpr auto kSleep = std::chrono::microseconds(100);

std::atomic<bool (*)()> interrupt_question{nullptr};

}  // namespace

void SetInterruptQuestion(bool (*ask)()) { interrupt_question = ask; }

bool IsInterrupted() {
  bool (*const ask)() = interrupt_question.load(std::memory_order_relaxed);
  return ask != nullptr && ask();
}

Error InterruptedError() {
  return Error(ErrorCode::kInterrupted,
               "The wait for the other ranks was interrupted. This communicator can't be used any "
               "more: its ranks are no longer in step.");
}

void CancellationToken::ThrowIfCancelled(const char* kind, int number) const {
  const bool is_closed = is_cancelled_.load(std::memory_order_relaxed);
  if (!is_closed && !leaf_failed_.load(std::memory_order_relaxed)) return;
  throw Error(
      ErrorCode::kUnavailable,
      std::string("Waited for ") + kind + " " + std::to_string(number) +
          (is_closed ? " when this process closed the communicator."
                     : " when another replica of this process failed. Its error says why."));
}

// About 40 microseconds where each thread has a core to itself; on shared cores the awaited one
// may need this very core.
int HotPauses(int num_threads) {
  const int num_cores = static_cast<int>(std::thread::hardware_concurrency());
  return num_threads <= num_cores ? 1000 : 16;
}

void Backoff::PauseCold() {
  const auto now = CountedTime::Clock::now();
  if (num_pauses_ == waits_.hot_pauses + 1) time_ = CountedTime(now);
  const auto waited = time_.At(now);
  Check(waited);
  if (waited < kYieldFor) {
    sched_yield();
  } else {
    LookWhoHasLeft();
    std::this_thread::sleep_for(kSleep);
  }
}

void Backoff::LookWhoHasLeft() {
  // What it sent before may have come meanwhile: the caller looks once more.
  if (left_ != nullptr && left_->transport != nullptr) {
    throw Error(
        ErrorCode::kUnavailable,
        std::string("Waited in ") + what_ + " for rank " +
            std::to_string(left_->transport->WorldRank(left_->peer)) +
            ", which takes part in nothing more: it ended, or its communicator was closed or "
            "broke, in the midst of an operation. Look at that rank's log.");
  }
  for (const Watched* each : {&sender_, &receiver_}) {
    if (each->transport != nullptr && each->transport->HasLeft(each->peer)) left_ = each;
  }
}

int Backoff::AwaitedRank() const {
  for (const Watched* each : {&sender_, &receiver_}) {
    if (each->transport != nullptr) return each->transport->WorldRank(each->peer);
  }
  return rank_;
}

void Backoff::Check(CountedTime::Clock::duration waited) const {
  waits_.cancellation.ThrowIfCancelled("rank", AwaitedRank());
  if (IsInterrupted()) throw InterruptedError();
  if (Seconds(waited) > waits_.timeouts.silence_seconds) {
    throw Error(ErrorCode::kDeadlineExceeded,
                "Waited " + InSeconds(waits_.timeouts.silence_seconds) + " in " + what_ +
                    " for rank " + std::to_string(AwaitedRank()) +
                    ", which said nothing. Look at that rank's log, or set a longer "
                    "TF_ADASUM_TIMEOUT_SECONDS.");
  }
}

}  // namespace adasum
