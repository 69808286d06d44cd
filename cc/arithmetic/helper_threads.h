// Threads for the arithmetic of a rank whose caller lends none.
#ifndef ADASUM_ARITHMETIC_HELPER_THREADS_H_
#define ADASUM_ARITHMETIC_HELPER_THREADS_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "cc/arithmetic/parallel_arithmetic.h"

namespace adasum {

class HelperThreads {
 public:
  HelperThreads() = default;
  ~HelperThreads();
  HelperThreads(const HelperThreads&) = delete;
  HelperThreads& operator=(const HelperThreads&) = delete;

  // Starts what is missing of `count` threads, or as many as the system grants, and returns what
  // hands work to them. This must outlive it. By one thread at a time.
  LendThread Lend(int count);

 private:
  void Push(std::function<void()> work);
  void Loop();
  // Looks for work for a while, without the lock: the next step of an allreduce follows soon, and
  // to wake a thread takes longer.
  void Linger(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;  // under mutex_
  int num_sleeping_ = 0;                       // under mutex_
  std::atomic<bool> has_news_{false};          // work waits, or the end
  bool is_ending_ = false;                     // under mutex_
  std::vector<std::thread> threads_;
};

}  // namespace adasum

#endif  // ADASUM_ARITHMETIC_HELPER_THREADS_H_
