#include "cc/python/no_gil.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace adasum {
namespace {

// That ends the interpreter; 0 before.
std::atomic<unsigned long> ending_thread{0};
// Threads on their way from the library to the interpreter.
std::atomic<int> num_returning{0};

[[noreturn]] void Park() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

NoGil::~NoGil() {
  ++num_returning;
  const unsigned long ending = ending_thread;
  if (ending != 0 && ending != PyThread_get_thread_ident()) {
    --num_returning;
    Park();
  }
  PyEval_RestoreThread(state_);
  --num_returning;
}

void ParkOtherThreads() {
  ending_thread = PyThread_get_thread_ident();
  // Those that looked before get the lock; it is free meanwhile.
  PyThreadState* const state = PyEval_SaveThread();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (num_returning > 0 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  PyEval_RestoreThread(state);
}

}  // namespace adasum
