// Communicators that end while others wait: closed by their rank, or left by it for good.
//
// In shared memory only: ranks that are threads look whether they were cancelled by waits of the
// hub's own, and their sends wait until they are received.

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "cc/core/backoff.h"
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
using test::Pending;
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
  for (int size : {2, 3, 5, 8, 9, 12}) {
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

// From nine ranks on a rank sends to the one that has left, and waits for a third one, who comes
// late. It finds the notice all the same, and not that an operation was cut short.
TEST(RankThatHasLeftEndsNoWaitForAThirdOne) {
  constexpr int kSize = 9;
  Ranks ranks(Wire::kSharedMemory, kSize, kLongSeconds, kLongSeconds);
  CheckUsable(ranks, "before");
  ForEachRank(kSize, [&](int rank) {
    if (rank == kSize - 1) return ranks[rank].Close();
    std::this_thread::sleep_for(std::chrono::milliseconds(rank == kSize - 3 ? 300 : 50));
    const Ending ending = VectorRequest(ranks[rank], "next", {1}).Await();
    CHECK_TRUE(Contains(Describe(ending), "rank 8 has closed this communicator"));
  });
}

// A request that takes a while after its ranks have come to it, and ends with a message of each to
// each. With `num_joined`, a rank that has no request of its own joins those of others, and counts.
Request SlowRequest(const std::string& name, std::atomic<int>* num_begun, Done done,
                    std::atomic<int>* num_joined = nullptr) {
  auto run = [=](RequestContext& context) {
    if (num_joined != nullptr) {
      context.passive = [=] {
        ++*num_joined;
        return SlowRequest(name, num_begun, [](const Error*) {});
      };
    }
    ++*num_begun;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (int step = 1; step < context.transport.size(); ++step) {
      const int size = context.transport.size(), rank = context.transport.rank();
      int mine = rank, theirs = -1;
      context.transport.SendRecv({(rank + step) % size, &mine, sizeof(mine)},
                                 {(rank + size - step) % size, &theirs, sizeof(theirs)});
    }
  };
  return {RequestKey(name, "slow"), run, std::move(done)};
}

// Gives up after a while: what is missing then, the checks tell.
void AwaitCount(const std::atomic<int>& count, int expected) {
  for (int i = 0; i < 5000 && count < expected; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void CheckToldOfTheEnd(Ranks& ranks, int rank) {
  CHECK_TRUE(Contains(Describe(VectorRequest(ranks[rank], "next", {1}).Await()), "has ended"));
}

// What all have begun is done before the last rank leaves, and the others are told.
TEST(RankThatLeavesInTheMidstOfARequestEndsItFirst) {
  for (int size : {2, 3, 5}) {
    Scope scope(std::to_string(size) + " ranks");
    Ranks ranks(Wire::kSharedMemory, size, kLongSeconds, kLongSeconds);
    std::atomic<int> num_begun{0};
    ForEachRank(size, [&](int rank) {
      Pending pending;
      ranks[rank].Enqueue(SlowRequest("slow", &num_begun, pending.done()));
      if (rank == size - 1) {
        AwaitCount(num_begun, size);
        ranks[rank].Shutdown();
      }
      CHECK_EQ(Describe(pending.Await()), "");
      if (rank != size - 1) CheckToldOfTheEnd(ranks, rank);
    });
  }
}

// Keeps the engine of its rank, which joins nothing meanwhile.
Request BusyRequest(Done done) {
  Request request{RequestKey("busy", "busy"), nullptr, std::move(done)};
  request.run_alone = [](RequestContext&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return true;
  };
  return request;
}

// The last rank joins what the one before it has begun, and leaves while both wait for the first.
TEST(RankThatLeavesWhileItJoinsEndsThatFirst) {
  for (int size : {3, 5}) {
    Scope scope(std::to_string(size) + " ranks");
    Ranks ranks(Wire::kSharedMemory, size, kLongSeconds, kLongSeconds);
    std::atomic<int> num_begun{0}, last_joined{0}, others_joined{0};
    ForEachRank(size, [&](int rank) {
      const bool is_last = rank == size - 1;
      Pending first, second;
      ranks[rank].Enqueue(
          SlowRequest("slow", &num_begun, first.done(), is_last ? &last_joined : &others_joined));
      CHECK_EQ(Describe(first.Await()), "");
      if (is_last) {
        AwaitCount(last_joined, 1);
        return ranks[rank].Shutdown();
      }
      if (rank == 0) ranks[rank].Enqueue(BusyRequest(second.done()));
      if (rank == size - 2) ranks[rank].Enqueue(SlowRequest("slow", &num_begun, second.done()));
      if (rank == 0 || rank == size - 2) CHECK_EQ(Describe(second.Await()), "");
      AwaitCount(num_begun, 2 * size);
      CheckToldOfTheEnd(ranks, rank);
    });
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
    // As long as a single rank would wait that waits for others in vain.
    CHECK_TRUE(Clock::now() - begin < std::chrono::seconds(2));
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

// How often a wait of any rank has looked whether it is to end.
std::atomic<int> num_looks{0};

// Rank 0 has begun to meet the others, and then leaves: those that come later are told, and those
// that wait for them in their turn. What fits into a message of its own has been told already.
TEST(RankThatLeavesInTheMidstOfAWaitEndsTheWaitsOfTheOthers) {
  SetInterruptQuestion([] {
    ++num_looks;
    return false;
  });
  for (int size : {2, 3, 5, 12}) {
    for (int64_t length : {1, 4096}) {
      Scope scope(std::to_string(size) + " ranks, " + std::to_string(length) + " values");
      Ranks ranks(Wire::kSharedMemory, size, kLongSeconds, kLongSeconds);
      CheckUsable(ranks, "before");
      const std::vector<double> values(length, 1.0);
      num_looks = 0;
      VectorRequest cut_short(ranks[0], "step", values);
      AwaitCount(num_looks, 1);  // no other rank has anything to wait for
      ranks[0].Shutdown();
      CHECK_TRUE(Is(cut_short.Await(), ErrorCode::kUnavailable));
      ForEachRank(size, [&](int rank) {
        if (rank == 0) return;
        Ending ending = VectorRequest(ranks[rank], "step", values).Await();
        if (!ending) ending = VectorRequest(ranks[rank], "next", values).Await();
        CHECK_TRUE(Is(ending, ErrorCode::kUnavailable));
        CHECK_TRUE(Contains(Describe(ending), "takes part in nothing more"));
      });
    }
  }
  SetInterruptQuestion(nullptr);
}

// Rank 1 takes rank 0's last message so late that the notice of its end finds no room.
TEST(WhomTheNoticeDoesNotReachIsToldAllTheSame) {
  constexpr int kSize = 3;
  Ranks ranks(Wire::kSharedMemory, kSize, kLongSeconds, kLongSeconds);
  CheckUsable(ranks, "before");
  ForEachRank(kSize, [&](int rank) {
    Pending pending;
    const auto run = [rank](RequestContext& context) {
      char byte = 1;
      if (rank == 0) context.transport.SendRecv({1, &byte, 1}, {1, nullptr, 0});
      if (rank != 1) return;
      std::this_thread::sleep_for(std::chrono::seconds(3));
      context.transport.SendRecv({0, nullptr, 0}, {0, &byte, 1});
    };
    ranks[rank].Enqueue({RequestKey("slow", "slow"), run, pending.done()});
    CHECK_EQ(Describe(pending.Await()), "");
    if (rank == 0) return ranks[rank].Shutdown();
    CHECK_TRUE(Is(VectorRequest(ranks[rank], "next", {1}).Await(), ErrorCode::kUnavailable));
  });
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
    ForEachRank(size, [&](int rank) {
      ranks[rank].Close();
      VectorRequest later(ranks[rank], "later", {1});
      CHECK_TRUE(Is(later.Await(), ErrorCode::kUnavailable));
    });
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
