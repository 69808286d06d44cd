// What becomes of a request, for the thread that waits for it.
#ifndef ADASUM_ENGINE_OUTCOME_H_
#define ADASUM_ENGINE_OUTCOME_H_

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "cc/core/backoff.h"
#include "cc/core/error.h"

namespace adasum {

// Not a std::promise: each of those makes a system call, though nobody waits yet.
class Outcome {
 public:
  bool is_known() const { return is_known_; }

  void Set(const Error* error) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (error != nullptr) error_ = *error;
    is_known_ = true;
    // Under the lock: the waiting thread destroys this as soon as it sees it.
    changed_.notify_all();
  }

  // Whether it is known within that time.
  template <typename Duration>
  bool AwaitFor(Duration limit) {
    std::unique_lock<std::mutex> lock(mutex_);
    return is_known_ || changed_.wait_for(lock, limit, [this] { return is_known(); });
  }

  // That the waiting thread was told to end its wait, and has ended the request: this is what it
  // throws then, however far the request had come.
  void SetInterrupted() { is_interrupted_ = true; }

  // Once it is known.
  void ThrowIfFailed() const {
    if (is_interrupted_) {
      Error interrupted = InterruptedError();
      if (error_ && error_->needs_memory_kept()) interrupted.SetNeedsMemoryKept();
      throw interrupted;
    }
    if (error_) throw *error_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> error_;
  bool is_interrupted_ = false;  // of the waiting thread
  std::atomic<bool> is_known_{false};
};

}  // namespace adasum

#endif  // ADASUM_ENGINE_OUTCOME_H_
