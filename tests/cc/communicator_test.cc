// Requests in any order, disagreement and silence, with one communicator for each rank.

#include "cc/engine/communicator.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
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
using test::ForEachWorld;
using test::Is;
using test::Ranks;
using test::Scope;
using test::VectorRequest;
using test::Wire;

// Short timeouts of the tests that run into them.
constexpr double kShortSeconds = 0.2;
constexpr double kLongSeconds = 60;
// Of those that must not run into it before, however late a loaded machine lets a rank come.
constexpr double kNotSoShortSeconds = 1;

// Every rank issues the same requests, of unlike lengths and reductions, in an order of its own.
TEST(AnyOrderMixesNothing) {
  constexpr int kRequests = 30;
  ForEachWorld({1, 2, 3, 5, 8}, [](Wire wire, int size) {
    Ranks ranks(wire, size);
    ForEachRank(size, [&](int rank) {
      std::vector<int> order(kRequests);
      std::iota(order.begin(), order.end(), 0);
      std::mt19937 random(rank);
      std::shuffle(order.begin(), order.end(), random);
      std::vector<std::unique_ptr<VectorRequest>> requests(kRequests);
      for (int number : order) {
        // Length and reduction vary, and equal ones are among them: 0 and 12, 1 and 13, ...
        std::vector<double> values(1 + number % 4, number * 100.0 + rank);
        requests[number] = std::make_unique<VectorRequest>(
            ranks[rank], "request" + std::to_string(number), values, number % 3 ? "sum" : "mean");
        if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      }
      for (int number = 0; number < kRequests; ++number) {
        Scope scope("request " + std::to_string(number));
        CHECK_EQ(Describe(requests[number]->Await()), "");
        double mean = number * 100.0 + (size - 1) / 2.0;
        for (double value : requests[number]->result()) {
          CHECK_EQ(value, number % 3 ? mean * size : mean);
        }
      }
    });
  });
}

TEST(RequestsOfOneNameKeepTheirOrder) {
  ForEachWorld({2, 3}, [](Wire wire, int size) {
    Ranks ranks(wire, size);
    ForEachRank(size, [&](int rank) {
      VectorRequest first(ranks[rank], "same", {1});
      VectorRequest second(ranks[rank], "same", {2});
      CHECK_EQ(Describe(first.Await()) + Describe(second.Await()), "");
      CHECK_EQ(first.result()[0], 1.0 * size);
      CHECK_EQ(second.result()[0], 2.0 * size);
    });
  });
}

// Without a name: told apart by what they are, also where a long list differs only at its end.
TEST(UnnamedRequestsMeetByTheirContent) {
  RequestKey nothing("", "sum of [3]");
  CHECK_TRUE(nothing.digest() == RequestKey("", "sum of [3]").digest());
  CHECK_TRUE(nothing.digest() != RequestKey("", "sum of [4]").digest());
  std::string shapes(10000, '3');
  CHECK_TRUE(RequestKey("", shapes + "3").name() != RequestKey("", shapes + "4").name());
  CHECK_TRUE(RequestKey("", shapes).name().size() < 200);
  ForEachWorld({2, 3}, [](Wire wire, int size) {
    Ranks ranks(wire, size);
    ForEachRank(size, [&](int rank) {
      // Rank 0 has them the other way round.
      VectorRequest first(ranks[rank], "", std::vector<double>(rank == 0 ? 2 : 1, 1.0));
      VectorRequest second(ranks[rank], "", std::vector<double>(rank == 0 ? 1 : 2, 1.0));
      CHECK_EQ(Describe(first.Await()) + Describe(second.Await()), "");
      CHECK_EQ(first.result()[0], 1.0 * size);
      CHECK_EQ(second.result()[0], 1.0 * size);
    });
  });
}

// The last rank passes something else under the same name.
TEST(UnlikeTensorsFailOnEveryRank) {
  struct Unlike {
    const char* what;
    std::vector<double> values;
    const char* reduction;
    DType dtype;
    const char* in_message;
  };
  const Unlike cases[] = {
      {"shape", {1, 2, 3}, "sum", DType::kFloat64, "float64 tensors [3]"},
      {"dtype", {1, 2}, "sum", DType::kInt64, "int64 tensors [2]"},
      {"reduction", {1, 2}, "adasum", DType::kFloat64, "allreduce(adasum)"},
  };
  ForEachWorld({2, 3, 5}, [&](Wire wire, int size) {
    Ranks ranks(wire, size);
    for (const Unlike& unlike : cases) {
      Scope scope(unlike.what);
      ForEachRank(size, [&](int rank) {
        bool is_odd = rank == size - 1;
        VectorRequest request(
            ranks[rank], "gradient", is_odd ? unlike.values : std::vector<double>(2),
            is_odd ? unlike.reduction : "sum", is_odd ? unlike.dtype : DType::kFloat64);
        Ending ending = request.Await();
        CHECK_TRUE(Is(ending, ErrorCode::kInvalidArgument));
        std::string text = Describe(ending);
        CHECK_TRUE(Contains(text, "rank " + std::to_string(rank) + ": Expected 'gradient'"));
        CHECK_TRUE(Contains(text, "rank " + std::to_string(size - 1) + " passed allreduce("));
        CHECK_TRUE(Contains(text, unlike.in_message));
        CHECK_TRUE(Contains(text, "allreduce(sum) of 1 float64 tensors [2] from 1 replicas"));
        CHECK_TRUE(Contains(text, size == 2 ? "rank 0 passed" : "ranks 0, 1"));
        CHECK_TRUE(!Contains(text, "\n"));
      });
      CheckUsable(ranks, unlike.what);
    }
  });
}

TEST(NamesThatNobodySharesFailOnEveryRank) {
  ForEachWorld({2, 3}, [](Wire wire, int size) {
    Ranks ranks(wire, size, kLongSeconds, kShortSeconds);
    ForEachRank(size, [&](int rank) {
      VectorRequest request(ranks[rank], rank == 0 ? "mine" : "yours", {1});
      Ending ending = request.Await();
      CHECK_TRUE(Is(ending, ErrorCode::kInvalidArgument));
      CHECK_TRUE(Contains(Describe(ending), "rank 0 passed 'mine'"));
      CHECK_TRUE(Contains(Describe(ending),
                          size == 2 ? "rank 1 passed 'yours'" : "ranks 1, 2 passed 'yours'"));
    });
    CheckUsable(ranks, "after");
  });
}

// What all share goes on while a stranger waits in front of it; the stranger fails when the ranks
// have nothing else left.
TEST(StrangerDoesNotHoldUpTheOthers) {
  ForEachWorld({2, 3}, [](Wire wire, int size) {
    Ranks ranks(wire, size, kLongSeconds, kNotSoShortSeconds);
    ForEachRank(size, [&](int rank) {
      std::unique_ptr<VectorRequest> stranger;
      if (rank == 0)
        stranger = std::make_unique<VectorRequest>(ranks[0], "stranger", std::vector<double>{1});
      for (int number = 0; number < 5; ++number) {
        VectorRequest request(ranks[rank], "shared" + std::to_string(number), {2});
        CHECK_EQ(Describe(request.Await()), "");
        CHECK_EQ(request.result()[0], 2.0 * size);
      }
      if (rank != 0)
        stranger = std::make_unique<VectorRequest>(ranks[rank], "other", std::vector<double>{1});
      CHECK_TRUE(Is(stranger->Await(), ErrorCode::kInvalidArgument));
    });
    CheckUsable(ranks, "after");
  });
}

TEST(LateRankIsWaitedFor) {
  ForEachWorld({3}, [](Wire wire, int size) {
    Ranks ranks(wire, size, kLongSeconds, kShortSeconds);
    ForEachRank(size, [&](int rank) {
      // Longer than the limit for strangers, which does not apply to a rank that says nothing.
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(600));
      VectorRequest request(ranks[rank], "late", {1});
      CHECK_EQ(Describe(request.Await()), "");
    });
  });
}

TEST(SilentRankBreaksTheCommunicator) {
  ForEachWorld({2, 3}, [](Wire wire, int size) {
    Ranks ranks(wire, size, kNotSoShortSeconds, kShortSeconds);
    ForEachRank(size, [&](int rank) {
      if (rank == size - 1) return;  // never comes
      VectorRequest request(ranks[rank], "lonely", {1}), queued(ranks[rank], "next", {1});
      Ending ending = request.Await();
      CHECK_TRUE(Is(ending, ErrorCode::kDeadlineExceeded));
      // What was pending ends as well, and nothing can follow: a late message could meet it.
      CHECK_TRUE(Is(queued.Await(), ErrorCode::kDeadlineExceeded));
      Ending refused = VectorRequest(ranks[rank], "again", {1}).Await();
      CHECK_TRUE(Is(refused, ErrorCode::kUnavailable));
      CHECK_TRUE(Contains(Describe(refused), ending->what()));
    });
  });
}

TEST(WhatCannotBeReducedIsRefusedAtOnce) {
  Ranks ranks(Wire::kSharedMemory, 2, kLongSeconds, kLongSeconds);
  // Rank 1 says nothing: these must not wait for it.
  Ending integers = VectorRequest(ranks[0], "i", {1}, "adasum", DType::kInt64).Await();
  CHECK_TRUE(Is(integers, ErrorCode::kInvalidArgument));
  CHECK_TRUE(Contains(Describe(integers), "Received: int64"));
  Ending unknown = VectorRequest(ranks[0], "u", {1}, "median").Await();
  CHECK_TRUE(Is(unknown, ErrorCode::kInvalidArgument));
  CHECK_TRUE(Contains(Describe(unknown), "Received: median"));
  CheckUsable(ranks, "after");
}

TEST(ErrorInsideARequestBreaksTheCommunicator) {
  Ranks ranks(Wire::kSharedMemory, 2);
  ForEachRank(2, [&](int rank) {
    test::Pending pending;
    ranks[rank].Enqueue({RequestKey("failing", "anything"),
                         [](RequestContext&) { throw std::runtime_error("out of something"); },
                         pending.done()});
    Ending ending = pending.Await();
    CHECK_TRUE(Is(ending, ErrorCode::kInternal));
    CHECK_TRUE(Contains(Describe(ending), "out of something"));
    CHECK_TRUE(Is(VectorRequest(ranks[rank], "next", {1}).Await(), ErrorCode::kUnavailable));
  });
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
