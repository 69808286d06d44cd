#include "cc/bootstrap/closer.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "cc/core/forks.h"

namespace adasum {
namespace {

class Closer {
 public:
  // Leaves `group` alone if it throws.
  void Close(std::unique_ptr<Group>&& group) {
    std::lock_guard<std::mutex> lock(mutex_);
    // Made at the first need. It waits for work until the process ends.
    if (!has_thread_) std::thread([this] { Loop(); }).detach();
    has_thread_ = true;
    groups_.push_back(std::move(group));
    changed_.notify_all();
  }

  void Await() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!groups_.empty() || is_closing_) {
      const int64_t before = num_closed_;
      if (!changed_.wait_for(lock, kLimit, [&] { return num_closed_ > before; })) return;
    }
  }

 private:
  // Of one group: it waits 2 s for each of what is under way, its notice and its last messages.
  static constexpr std::chrono::seconds kLimit{8};

  void Loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !groups_.empty(); });
      std::unique_ptr<Group> group = std::move(groups_.front());
      groups_.pop_front();
      is_closing_ = true;
      lock.unlock();
      group->communicator().Close();
      group.reset();
      lock.lock();
      is_closing_ = false;
      ++num_closed_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Group>> groups_;
  bool has_thread_ = false;
  bool is_closing_ = false;
  int64_t num_closed_ = 0;
};

Closer& TheCloser() {
  // Never destroyed: its thread outlasts static destructors.
  static Closer* closer = new Closer;
  return *closer;
}

}  // namespace

std::shared_ptr<Group> Shared(std::unique_ptr<Group> group) {
  auto close = [home = HomeProcess()](Group* last) {
    // A forked child has none of the group's threads, and must not speak for the rank: what it has
    // a copy of stays as it is.
    if (!home.IsHere()) return;
    std::unique_ptr<Group> owned(last);
    try {
      TheCloser().Close(std::move(owned));
    } catch (const std::exception&) {
      // No thread to be had: the group stays open until the process ends.
      static_cast<void>(owned.release());
    }
  };
  return std::shared_ptr<Group>(group.release(), close);
}

void AwaitClosed() { TheCloser().Await(); }

}  // namespace adasum
