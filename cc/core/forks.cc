#include "cc/core/forks.h"

#include <pthread.h>

#include <atomic>
#include <string>

#include "cc/core/error.h"

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

void HomeProcess::Check(int rank) const {
  if (IsHere()) return;
  throw Error(ErrorCode::kUnavailable,
              "rank " + std::to_string(rank) +
                  ": Expected the process that joined the group of ranks. Received: a child that "
                  "was forked from it, which can't speak for the rank. Use tf_adasum in the rank "
                  "itself, and children for other work.");
}

}  // namespace adasum
