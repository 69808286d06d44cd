#include "cc/arithmetic/helper_threads.h"

#include <pthread.h>

#include <chrono>
#include <system_error>
#include <utility>

#include "cc/core/backoff.h"

namespace adasum {
namespace {

constexpr auto kLinger = std::chrono::microseconds(100);
// What top and gdb call them; 15 characters at most.
constexpr char kThreadName[] = "adasum helper";

}  // namespace

HelperThreads::~HelperThreads() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
    has_news_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

LendThread HelperThreads::Lend(int count) {
  try {
    while (static_cast<int>(threads_.size()) < count) {
      threads_.emplace_back([this] { Loop(); });
      pthread_setname_np(threads_.back().native_handle(), kThreadName);
    }
  } catch (const std::system_error&) {
    // Fewer help, or none: the caller does what they don't.
  }
  if (threads_.empty()) return nullptr;
  return [this](std::function<void()> work) { Push(std::move(work)); };
}

void HelperThreads::Push(std::function<void()> work) {
  bool wakes = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // All have more to do than they come to.
    if (waiting_.size() >= threads_.size()) return;
    waiting_.push_back(std::move(work));
    has_news_ = true;
    wakes = num_sleeping_ > 0;
  }
  if (wakes) changed_.notify_one();
}

void HelperThreads::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (waiting_.empty() && !is_ending_) Linger(lock);
    ++num_sleeping_;
    changed_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
    --num_sleeping_;
    if (is_ending_) return;
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    if (waiting_.empty()) has_news_ = false;
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

void HelperThreads::Linger(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const auto end = std::chrono::steady_clock::now() + kLinger;
  while (!has_news_.load(std::memory_order_acquire) && std::chrono::steady_clock::now() < end) {
    Relax();
  }
  lock.lock();
}

}  // namespace adasum
