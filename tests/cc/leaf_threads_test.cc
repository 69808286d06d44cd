// The threads of a process' replicas: kept from request to request, refused without harm, and none
// of them waits for one that has failed.

#include <pthread.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <set>

#include "cc/collectives/simulate.h"
#include "cc/core/backoff.h"
#include "cc/transport/thread_transport.h"
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
using test::Wire;

// In place of a device: calls what the test wants of each replica, on its thread.
class OnEachReplica : public DeviceTensors {
 public:
  using Body = std::function<void(int replica, Transport& transport)>;
  explicit OnEachReplica(Body body) : body_(std::move(body)) {}
  void Run(int replica, Transport& transport, const WaitControl&, const ReduceOnDevice&) override {
    body_(replica, transport);
  }

 private:
  const Body body_;
};

Ending RunOnReplicas(Communicator& communicator, int num_replicas, OnEachReplica::Body body) {
  static double value = 0;
  AllreduceTensors tensors{"request", "sum", DType::kFloat64, {{1}}, {}, {&value}};
  tensors.inputs.resize(num_replicas, {&value});
  tensors.device = std::make_shared<OnEachReplica>(std::move(body));
  test::Pending pending;
  test::EnqueueAllreduce(communicator, std::move(tensors), pending.done());
  return pending.Await();
}

// Refuses every further thread of this process, for its stack is larger than any memory.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    pthread_getattr_default_np(&usual_);
    pthread_attr_t vast;
    pthread_getattr_default_np(&vast);
    pthread_attr_setstacksize(&vast, size_t{1} << 50);
    pthread_setattr_default_np(&vast);
    pthread_attr_destroy(&vast);
  }
  ~NoMoreThreads() {
    pthread_setattr_default_np(&usual_);
    pthread_attr_destroy(&usual_);
  }

 private:
  pthread_attr_t usual_;
};

TEST(ThreadsAreKept) {
  Ranks ranks(Wire::kThreads, 1);
  std::mutex mutex;
  std::set<pid_t> threads;  // numbers that the kernel gives to one thread after the other
  for (int request = 0; request < 50; ++request) {
    const int num_replicas = 2 + request % 3;
    CHECK_EQ(Describe(RunOnReplicas(ranks[0], num_replicas,
                                    [&](int, Transport&) {
                                      std::lock_guard<std::mutex> lock(mutex);
                                      threads.insert(gettid());
                                    })),
             "");
  }
  CHECK_EQ(static_cast<int>(threads.size()), 4);
}

TEST(ReplicaThatFailsEndsTheWaitsOfTheOthers) {
  for (Wire wire : {Wire::kThreads, Wire::kSharedMemory}) {
    const int num_ranks = wire == Wire::kThreads ? 1 : 2;
    for (int failing = 0; failing < 3; ++failing) {
      test::Scope scope(std::string(WireName(wire)) + ", replica " + std::to_string(failing));
      // No limit ends them within that of this test.
      Ranks ranks(wire, num_ranks, 3600, 3600);
      std::atomic<int> num_ended{0};
      ForEachRank(num_ranks, [&](int rank) {
        Ending ending = RunOnReplicas(ranks[rank], 3, [&](int replica, Transport& transport) {
          if (replica == failing) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            throw Error(ErrorCode::kInternal, "out of luck");
          }
          try {
            transport.PairwiseBarrier(3 * rank + failing);
          } catch (const Error& error) {
            num_ended += Contains(error.what(), "another replica of this process failed");
            throw;
          }
        });
        CHECK_EQ(Describe(ending), "Internal: rank " + std::to_string(rank) + ": out of luck");
      });
      CHECK_EQ(num_ended.load(), 2 * num_ranks);
    }
  }
}

// Python's main thread is one, and replicas but the first have others.
thread_local bool is_interrupted = false;

// The first replica is done, and the caller waits for one that waits for the other rank.
TEST(InterruptEndsTheWaitForOtherReplicas) {
  Ranks ranks(Wire::kSharedMemory, 2, 3600, 3600);
  SetInterruptQuestion([] { return is_interrupted; });
  std::atomic<bool> is_ended{false};
  ForEachRank(2, [&](int rank) {
    const Ending ending = RunOnReplicas(ranks[rank], 2, [&](int replica, Transport& transport) {
      if (rank == 0 && replica == 0) is_interrupted = true;
      if (replica == 0) return;
      if (rank == 1) {
        while (!is_ended) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return;
      }
      char received;
      transport.SendRecv({2, nullptr, 0}, {3, &received, 1});
    });
    if (rank == 0) CHECK_TRUE(Is(ending, ErrorCode::kInterrupted));
    if (rank == 0) is_ended = true;
  });
  SetInterruptQuestion(nullptr);
}

// What it was asked for is Python's KeyboardInterrupt, which nobody else raises.
TEST(InterruptIsHeardWhereAnotherReplicaFailedBefore) {
  Ranks ranks(Wire::kThreads, 1, 3600, 3600);
  const Ending ending = RunOnReplicas(ranks[0], 2, [&](int replica, Transport& transport) {
    if (replica == 1) throw Error(ErrorCode::kUnavailable, "a peer has left");
    try {
      transport.PairwiseBarrier(1);
    } catch (const Error&) {
      throw InterruptedError();
    }
  });
  CHECK_TRUE(Is(ending, ErrorCode::kInterrupted));
}

TEST(ThreadThatCannotBeHadIsAnError) {
  Ranks ranks(Wire::kSharedMemory, 2);
  CheckUsable(ranks, "before");
  auto reduce = [&] {
    std::vector<Ending> endings(2);
    std::vector<std::unique_ptr<test::Pending>> pending;
    // Apart from the results: a replica may still read what another one has the result of.
    static const double input = 1;
    static double results[2] = {};
    for (int rank = 0; rank < 2; ++rank) {
      AllreduceTensors tensors{"two", "sum", DType::kFloat64, {{1}}, {}, {&results[rank]}};
      tensors.inputs = {{&input}, {&input}};
      pending.push_back(std::make_unique<test::Pending>());
      test::EnqueueAllreduce(ranks[rank], std::move(tensors), pending.back()->done());
    }
    for (int rank = 0; rank < 2; ++rank) endings[rank] = pending[rank]->Await();
    return endings;
  };
  {
    NoMoreThreads none;
    for (const Ending& ending : reduce()) {
      CHECK_TRUE(Is(ending, ErrorCode::kResourceExhausted));
      CHECK_TRUE(Contains(Describe(ending), "rank 0: Expected a thread for replica 1"));
    }
  }
  for (const Ending& ending : reduce()) CHECK_EQ(Describe(ending), "");
  CheckUsable(ranks, "after");
}

TEST(SimulateWithoutThreadsIsAnError) {
  double values[2] = {1, 2};
  auto simulate = [&] {
    Simulate({"sum", "", {2}}, DType::kFloat64, {1}, {{&values[0]}, {&values[1]}},
             {{&values[0]}, {&values[1]}});
  };
  try {
    NoMoreThreads none;
    simulate();
    CHECK_TRUE(!"ResourceExhausted");
  } catch (const Error& error) {
    CHECK_TRUE(error.code() == ErrorCode::kResourceExhausted);
  }
  simulate();
  CHECK_EQ(values[1], 3.0);
}

// Code of an error that `call` throws; none if it throws none.
std::optional<ErrorCode> CodeOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

TEST(WhatALeafSentIsGoneWithIt) {
  WaitControl waits;
  waits.timeouts.silence_seconds = 0.2;
  ThreadHub hub(3, waits);
  ThreadTransport first(&hub, 0), second(&hub, 1);
  char received;
  {
    const char sent = 1;
    // Leaf 2 never comes, and nobody has taken what was sent to leaf 1.
    const auto code = CodeOf([&] { first.SendRecv({1, &sent, 1}, {2, &received, 1}); });
    CHECK_TRUE(code == ErrorCode::kDeadlineExceeded);
  }
  // It would read where `sent` was.
  const auto code = CodeOf([&] { second.SendRecv({0, nullptr, 0}, {0, &received, 1}); });
  CHECK_TRUE(code == ErrorCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
