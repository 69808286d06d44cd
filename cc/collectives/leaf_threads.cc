#include "cc/collectives/leaf_threads.h"

#include <chrono>
#include <string>
#include <utility>

#include "cc/core/backoff.h"
#include "cc/core/default_floats.h"
#include "cc/core/error.h"
#include "cc/core/threads.h"

namespace adasum {
namespace {

// Between two looks for an interrupt.
constexpr std::chrono::milliseconds kLook{50};

}  // namespace

LeafThreads::~LeafThreads() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void LeafThreads::Grow(int num_leaves) {
  while (static_cast<int>(threads_.size()) + 1 < num_leaves) {
    const int leaf = static_cast<int>(threads_.size()) + 1;
    threads_.push_back(StartThread("replica " + std::to_string(leaf) + " of this process",
                                   [this, leaf] { Loop(leaf); }));
  }
}

void LeafThreads::ForEach(ThreadHub* hub, const std::function<void(int)>& body) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    hub_ = hub;
    body_ = &body;
    num_running_ = hub->size() - 1;
    ++num_calls_;
  }
  if (hub->size() > 1) begun_.notify_all();
  Run(0);
  AwaitOthers();
  std::lock_guard<std::mutex> lock(mutex_);
  body_ = nullptr;
  waits_.cancellation.SetLeafFailed(false);
  if (first_) std::rethrow_exception(std::exchange(first_, nullptr));
}

void LeafThreads::AwaitOthers() {
  std::unique_lock<std::mutex> lock(mutex_);
  // Only the caller's thread hears of a Ctrl-C.
  while (!finished_.wait_for(lock, kLook, [this] { return num_running_ == 0; })) {
    lock.unlock();
    if (IsInterrupted()) Fail(std::make_exception_ptr(InterruptedError()), true);
    lock.lock();
  }
}

void LeafThreads::Loop(int leaf) {
  int64_t num_seen = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    begun_.wait(lock, [&] { return is_ending_ || num_calls_ > num_seen; });
    if (is_ending_) return;
    num_seen = num_calls_;
    if (body_ == nullptr || leaf >= hub_->size()) continue;  // a call of fewer leaves
    lock.unlock();
    Run(leaf);
    lock.lock();
    if (--num_running_ == 0) finished_.notify_all();
  }
}

void LeafThreads::Run(int leaf) {
  DefaultFloats floats;  // whoever made the thread, or calls
  try {
    (*body_)(leaf);
  } catch (const Error& error) {
    Fail(std::current_exception(), error.code() == ErrorCode::kInterrupted);
  } catch (...) {
    Fail(std::current_exception(), false);
  }
}

void LeafThreads::Fail(std::exception_ptr error, bool is_interrupt) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // A Ctrl-C that was taken here is nobody else's to raise.
    if (!first_ || is_interrupt) first_ = std::move(error);
    waits_.cancellation.SetLeafFailed(true);
  }
  hub_->Wake();
}

}  // namespace adasum
