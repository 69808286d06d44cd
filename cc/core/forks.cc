#include "cc/core/forks.h"

#include <pthread.h>

#include <atomic>

namespace adasum {
namespace {

std::atomic<int64_t> num_forks{0};

// A counter rather than process ids: reading it costs no system call.
const int is_counting = pthread_atfork(nullptr, nullptr, [] { ++num_forks; });

}  // namespace

int64_t NumForks() {
  static_cast<void>(is_counting);
  return num_forks.load(std::memory_order_relaxed);
}

}  // namespace adasum
