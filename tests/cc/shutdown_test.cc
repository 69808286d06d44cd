// Communicators that end while others wait: closed by their rank, or left by it for good.
//
// In shared memory only: ranks that are threads look whether they were cancelled by waits of the
// hub's own, and their sends wait until they are received.

#include <chrono>
#include <thread>

#include "tests/cc/check.h"
#include "tests/cc/ranks.h"

namespace adasum {
namespace {

using test::CheckUsable;
using test::Contains;
using test::Describe;
using test::Ending;
using test::ForEachRank;
using test::Is;
using test::Ranks;
using test::Scope;
using test::VectorRequest;
using test::Wire;

constexpr double kShortSeconds = 0.2;
constexpr double kLongSeconds = 60;

TEST(CloseEndsWhatWaits) {
  Ranks ranks(Wire::kSharedMemory, 2, kLongSeconds, kLongSeconds);
  VectorRequest waiting(ranks[0], "waiting", {1}), queued(ranks[0], "queued", {1});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ranks[0].Close();
  CHECK_TRUE(Is(waiting.Await(), ErrorCode::kUnavailable));
  CHECK_TRUE(Is(queued.Await(), ErrorCode::kUnavailable));
  VectorRequest late(ranks[0], "late", {1});
  CHECK_TRUE(Is(late.Await(), ErrorCode::kUnavailable));
  ranks[0].Close();  // a second time
}

// The last rank leaves after one request; the others wait for it already, or come later.
TEST(RankThatLeavesEndsTheWaitOfTheOthers) {
  for (int size : {2, 3, 5, 8}) {
    for (int kind = 0; kind < 4; ++kind) {
      const bool is_late = kind % 2 == 1, closes = kind / 2 == 1;
      Scope scope(std::to_string(size) + (is_late ? " ranks, late" : " ranks") +
                  (closes ? ", closed" : ""));
      Ranks ranks(Wire::kSharedMemory, size, kLongSeconds, kLongSeconds);
      CheckUsable(ranks, "before");
      ForEachRank(size, [&](int rank) {
        const bool leaves = rank == size - 1;
        // Each at a time of its own; the first test of the two has most of them wait.
        if (leaves != is_late) std::this_thread::sleep_for(std::chrono::milliseconds(30 + rank));
        if (leaves) return closes ? ranks[rank].Close() : ranks[rank].Shutdown();
        VectorRequest waiting(ranks[rank], "waiting", {1}), queued(ranks[rank], "queued", {1});
        Ending ending = waiting.Await();
        CHECK_TRUE(Is(ending, ErrorCode::kUnavailable));
        const std::string text = Describe(ending);
        CHECK_TRUE(Contains(text, "rank " + std::to_string(rank) + ": Expected all ranks"));
        // Whether the second one is there yet when the first one fails is a matter of luck.
        CHECK_TRUE(Contains(text, "'waiting'. Rec") || Contains(text, "first of 2 that wait"));
        CHECK_TRUE(Contains(text, "Received: rank " + std::to_string(size - 1) +
                                      (closes ? " has closed this communicator." : " has ended.")));
        CHECK_TRUE(!Contains(text, "\n"));
        CHECK_TRUE(Is(queued.Await(), ErrorCode::kUnavailable));
        VectorRequest next(ranks[rank], "next", {1});
        CHECK_TRUE(Contains(Describe(next.Await()), "can't be used any more"));
      });
    }
  }
}

// Nobody else is left to hear of it twice, and a rank that waits hears of one of them.
TEST(AllButOneLeave) {
  for (int size : {2, 3, 5, 8}) {
    Scope scope(std::to_string(size) + " ranks");
    Ranks ranks(Wire::kSharedMemory, size, kLongSeconds, kLongSeconds);
    ForEachRank(size, [&](int rank) {
      if (rank != 1) return ranks[rank].Shutdown();
      Ending ending = VectorRequest(ranks[rank], "waiting", {1}).Await();
      CHECK_TRUE(Contains(Describe(ending), "has ended"));
    });
  }
}

TEST(RanksThatAllLeaveDoNotWait) {
  using Clock = std::chrono::steady_clock;
  for (int size : {1, 2, 3, 5, 8}) {
    Ranks ranks(Wire::kSharedMemory, size, kLongSeconds, kLongSeconds);
    CheckUsable(ranks, "before");
    const auto begin = Clock::now();
    ForEachRank(size, [&](int rank) { ranks[rank].Shutdown(); });
    CHECK_TRUE(Clock::now() - begin < std::chrono::seconds(1));
    ForEachRank(size, [&](int rank) { ranks[rank].Shutdown(); });  // a second time
  }
}

// What is cut short is in no state to be told of; a rank that nobody waits for is not held up.
TEST(LeavingIsLimited) {
  Ranks ranks(Wire::kSharedMemory, 2, kShortSeconds, kLongSeconds);
  ranks[0].Shutdown();
  VectorRequest late(ranks[0], "late", {1});
  CHECK_TRUE(Is(late.Await(), ErrorCode::kUnavailable));
  Ranks waiting_ranks(Wire::kSharedMemory, 2, kLongSeconds, kLongSeconds);
  VectorRequest waiting(waiting_ranks[0], "waiting", {1});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  waiting_ranks[0].Shutdown();
  CHECK_TRUE(Is(waiting.Await(), ErrorCode::kUnavailable));
}

TEST(CloseWhileRanksDisagree) {
  Ranks ranks(Wire::kSharedMemory, 2, kLongSeconds, kLongSeconds);
  VectorRequest mine(ranks[0], "mine", {1}), yours(ranks[1], "yours", {1});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ForEachRank(2, [&](int rank) { ranks[rank].Close(); });
  CHECK_TRUE(Is(mine.Await(), ErrorCode::kUnavailable));
  CHECK_TRUE(Is(yours.Await(), ErrorCode::kUnavailable));
}

TEST(CloseOfAnIdleCommunicator) {
  for (int size : {1, 3}) {
    Ranks ranks(Wire::kSharedMemory, size);
    ForEachRank(size, [&](int rank) { ranks[rank].Close(); });
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
