// Threads for the leaves of one process, which live as long as this object: a thread's end runs
// hooks of other libraries (UCX's, TensorFlow's), and none ends while requests are carried out.
#ifndef ADASUM_COLLECTIVES_LEAF_THREADS_H_
#define ADASUM_COLLECTIVES_LEAF_THREADS_H_

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "cc/core/backoff.h"
#include "cc/transport/thread_transport.h"

namespace adasum {

class LeafThreads {
 public:
  // `waits` is what the leaves wait by; it must outlive this.
  explicit LeafThreads(WaitControl* waits) : waits_(*waits) {}
  ~LeafThreads();
  LeafThreads(const LeafThreads&) = delete;
  LeafThreads& operator=(const LeafThreads&) = delete;

  // Sees to threads for so many leaves; the thread that calls ForEach is one. Throws
  // ResourceExhausted if the system refuses one.
  void Grow(int num_leaves);

  // Calls body(leaf) for each leaf of `hub` at the same time, the first on this thread, and returns
  // when all have. If one throws, the waits of the others end, and that first exception is thrown
  // here, or InterruptedError if the user interrupted one. After Grow; by one thread at a time.
  void ForEach(ThreadHub* hub, const std::function<void(int)>& body);

 private:
  void Loop(int leaf);
  void Run(int leaf);
  // Returns when the other leaves have; if the user interrupts that, it is an error of this one.
  void AwaitOthers();
  // A leaf's error, or that the user interrupted it: the others' waits end.
  void Fail(std::exception_ptr error, bool is_interrupt);

  WaitControl& waits_;
  std::mutex mutex_;
  std::condition_variable begun_, finished_;
  // One call of ForEach; under mutex_.
  int64_t num_calls_ = 0;
  ThreadHub* hub_ = nullptr;
  const std::function<void(int)>* body_ = nullptr;
  int num_running_ = 0;  // threads of ours
  std::exception_ptr first_;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;  // of leaf 1, 2, ...
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_LEAF_THREADS_H_
