// Waits whose process is stopped for longer than their limit, as those of a suspended job are.

#include "cc/core/counted_time.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <thread>

#include "cc/core/backoff.h"
#include "cc/core/error.h"
#include "tests/cc/check.h"

namespace adasum {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::NumFailures;
using TimePoint = CountedTime::Clock::time_point;

TEST(NoMoreThanASecondCountsBetweenTwoLooks) {
  const TimePoint begin(seconds(5));
  CountedTime time(begin);
  CHECK_EQ(Seconds(time.At(begin)), 0.0);
  CHECK_EQ(Seconds(time.At(begin + milliseconds(250))), 0.25);
  CHECK_EQ(Seconds(time.At(begin + milliseconds(1250))), 1.25);
  CHECK_EQ(Seconds(time.At(begin + seconds(1000))), 2.25);
  CHECK_EQ(Seconds(time.At(begin + milliseconds(1000500))), 2.75);
}

// What a process and the one that stops it share.
struct Shared {
  std::atomic<bool> waits{false};
  std::atomic<bool> is_there{false};
};

// Runs the body in a process that is stopped for longer than the limit once it waits, and which
// gets what it waits for a little after it goes on; returns how it ended.
int StatusOfStopped(seconds limit, const std::function<void(Shared*)>& body) {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK_TRUE(memory != MAP_FAILED);
  Shared* const shared = new (memory) Shared();
  const pid_t process = fork();
  if (process == 0) {
    body(shared);
    _exit(NumFailures() > 0);
  }
  int status = -1;
  while (!shared->waits) {
    if (waitpid(process, &status, WNOHANG) != 0) return status;  // it has ended
    std::this_thread::sleep_for(milliseconds(1));
  }
  std::this_thread::sleep_for(milliseconds(20));
  kill(process, SIGSTOP);
  std::this_thread::sleep_for(limit + seconds(1));
  kill(process, SIGCONT);
  std::this_thread::sleep_for(milliseconds(200));
  shared->is_there = true;
  waitpid(process, &status, 0);
  munmap(memory, sizeof(Shared));
  return status;
}

TEST(AWaitOutlastsAStopOfItsProcess) {
  // Far above what counts here: a second of the stop, and the 0.2 s around it.
  constexpr auto kLimit = seconds(10);
  CHECK_EQ(StatusOfStopped(kLimit,
                           [&](Shared* shared) {
                             WaitControl waits;
                             waits.timeouts.silence_seconds = Seconds(kLimit);
                             Backoff backoff(waits, "a test", 0);
                             shared->waits = true;
                             while (!shared->is_there) backoff.Pause();
                           }),
           0);
}

TEST(AWaitEndsAtItsLimit) {
  WaitControl waits;
  waits.timeouts.silence_seconds = 0.05;
  Backoff backoff(waits, "a test", 0);
  const auto begin = CountedTime::Clock::now();
  ErrorCode code = ErrorCode::kInternal;
  try {
    for (;;) backoff.Pause();
  } catch (const Error& error) {
    code = error.code();
  }
  CHECK_TRUE(code == ErrorCode::kDeadlineExceeded);
  CHECK_TRUE(CountedTime::Clock::now() - begin >= milliseconds(50));
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
