// Callers that carry out their requests themselves, beside requests that are handed over.

#include <chrono>
#include <random>
#include <thread>

#include "tests/cc/check.h"
#include "tests/cc/ranks.h"

namespace adasum {
namespace {

using test::Describe;
using test::Ending;
using test::ForEachRank;
using test::Is;
using test::Ranks;
using test::Scope;
using test::VectorRequest;
using test::Wire;

// Sums a vector on the calling thread.
Ending SumHere(Communicator& communicator, const std::string& name, std::vector<double>* values) {
  int64_t size = static_cast<int64_t>(values->size());
  AllreduceTensors tensors{
      name, "sum", DType::kFloat64, {{size}}, {{values->data()}}, {values->data()}};
  try {
    AllreduceAndWait(communicator, tensors);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

void CheckSum(Communicator& communicator, const std::string& name, double value) {
  std::vector<double> values(3, value + communicator.rank());
  CHECK_EQ(Describe(SumHere(communicator, name, &values)), "");
  int size = communicator.size();
  for (double sum : values) CHECK_EQ(sum, size * value + size * (size - 1) / 2.0);
}

TEST(OneAfterAnother) {
  for (int size : {1, 2, 3, 5}) {
    Scope scope(std::to_string(size) + " ranks");
    Ranks ranks(Wire::kSharedMemory, size);
    ForEachRank(size, [&](int rank) {
      for (int i = 0; i < 100; ++i) CheckSum(ranks[rank], "sum", i);
    });
  }
}

// Each rank hands over some requests and carries out others, from two threads, in any order.
TEST(BesideTheCommunicationThread) {
  constexpr int kRequests = 40;
  for (int size : {2, 3}) {
    Ranks ranks(Wire::kSharedMemory, size);
    ForEachRank(size, [&](int rank) {
      std::thread other([&] {
        for (int i = 0; i < kRequests; ++i) CheckSum(ranks[rank], "other" + std::to_string(i), i);
      });
      std::mt19937 random(rank);
      for (int i = 0; i < kRequests; ++i) {
        VectorRequest handed_over(ranks[rank], "handed" + std::to_string(i), {1.0 * rank});
        if (random() % 2) std::this_thread::yield();
        CheckSum(ranks[rank], "mine" + std::to_string(i), -i);
        CHECK_EQ(Describe(handed_over.Await()), "");
        CHECK_EQ(handed_over.result()[0], size * (size - 1) / 2.0);
      }
      other.join();
    });
  }
}

TEST(DisagreementIsThrown) {
  Ranks ranks(Wire::kSharedMemory, 3);
  ForEachRank(3, [&](int rank) {
    std::vector<double> values(rank == 2 ? 4 : 5, 7.0);
    Ending ending = SumHere(ranks[rank], "unlike", &values);
    CHECK_TRUE(Is(ending, ErrorCode::kInvalidArgument));
    for (double value : values) CHECK_EQ(value, 7.0);
    CheckSum(ranks[rank], "afterwards", 1);
  });
}

// A thread remembers what its last few requests were: more of them than that, in turns, and one
// that differs from a remembered one on a single rank.
TEST(ManyShapesOfOneNameInTurns) {
  Ranks ranks(Wire::kSharedMemory, 2);
  ForEachRank(2, [&](int rank) {
    for (int round = 0; round < 3; ++round) {
      for (size_t size = 1; size <= 20; ++size) {
        std::vector<double> values(size, 1.0 + rank);
        CHECK_EQ(Describe(SumHere(ranks[rank], "one name", &values)), "");
        for (double sum : values) CHECK_EQ(sum, 3.0);
      }
      std::vector<double> unlike(rank == 1 ? 20 : 19, 7.0);
      CHECK_TRUE(Is(SumHere(ranks[rank], "one name", &unlike), ErrorCode::kInvalidArgument));
      for (double value : unlike) CHECK_EQ(value, 7.0);
    }
  });
}

TEST(RefusedAtOnce) {
  Ranks ranks(Wire::kSharedMemory, 2);
  std::vector<double> values(1);
  AllreduceTensors unknown{"x",   "median",          DType::kFloat64,
                           {{1}}, {{values.data()}}, {values.data()}};
  try {
    AllreduceAndWait(ranks[0], unknown);
    test::Fail(__FILE__, __LINE__, "expected an error");
  } catch (const Error& error) {
    CHECK_TRUE(error.code() == ErrorCode::kInvalidArgument);
  }
  ranks[0].Close();
  CHECK_TRUE(Is(SumHere(ranks[0], "late", &values), ErrorCode::kUnavailable));
}

TEST(CloseEndsACallerThatWaits) {
  Ranks ranks(Wire::kSharedMemory, 2, 60, 60);
  std::vector<double> values(1);
  Ending ending;
  std::thread caller([&] { ending = SumHere(ranks[0], "waiting", &values); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ranks[0].Close();
  caller.join();
  CHECK_TRUE(Is(ending, ErrorCode::kUnavailable));
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
