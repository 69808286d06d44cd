// Threads that help: they come while they are wanted, sleep else, and end with what they belong to.

#include "cc/arithmetic/helper_threads.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "tests/cc/check.h"

namespace adasum {
namespace {

using std::chrono::milliseconds;

TEST(NobodyIsThereToHelp) {
  HelperThreads helpers;
  CHECK_TRUE(helpers.Lend(0) == nullptr);
}

// Each task waits for all others to have begun: for which it takes as many threads.
TEST(AsManyHelpAsWereAskedFor) {
  HelperThreads helpers;
  for (int num_helpers : {1, 3, 2}) {
    const LendThread lend = helpers.Lend(num_helpers);
    std::atomic<int> num_begun{0};
    ForEachTask(num_helpers + 1, num_helpers, lend, [&](int64_t) {
      ++num_begun;
      while (num_begun < num_helpers + 1) std::this_thread::yield();
    });
    CHECK_EQ(num_begun.load(), num_helpers + 1);
  }
}

// Soon one after the other, and after pauses in which helpers fall asleep.
TEST(EveryTaskOnceRoundByRound) {
  HelperThreads helpers;
  const LendThread lend = helpers.Lend(3);
  std::atomic<int64_t> total{0};
  constexpr int64_t kRounds = 2000, kTasks = 10;
  for (int64_t round = 0; round < kRounds; ++round) {
    ForEachTask(kTasks, 3, lend, [&](int64_t i) { total += i; });
    CHECK_EQ(total.load(), (round + 1) * kTasks * (kTasks - 1) / 2);
    if (round % 100 == 0) std::this_thread::sleep_for(milliseconds(1));
  }
}

// A helper that is held up, and work behind it that nobody comes to: dropped, not kept.
TEST(WorkThatNobodyComesToIsNotKept) {
  std::atomic<bool> is_held{true};
  std::atomic<bool> has_begun{false};
  auto shared = std::make_shared<int>(0);
  {
    HelperThreads helpers;
    const LendThread lend = helpers.Lend(1);
    lend([&] {
      has_begun = true;
      while (is_held) std::this_thread::sleep_for(milliseconds(1));
    });
    while (!has_begun) std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) lend([shared] { ++*shared; });
    CHECK_AT_MOST(shared.use_count(), 2);
    is_held = false;
  }
  // The end does not wait for more than what was begun.
  CHECK_AT_MOST(*shared, 1);
  CHECK_EQ(shared.use_count(), 1);
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
