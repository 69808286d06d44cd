// Many rounds of ranks that are late at random: nothing hangs, nothing grows, and no call goes by
// what it should not. The first argument says how many calls.

#include <malloc.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "tests/cc/check.h"
#include "tests/cc/partial_calls.h"

namespace adasum {
namespace {

using test::CallPartial;
using test::Describe;
using test::ForEachRank;
using test::PartialResult;
using test::Ranks;
using test::Scope;
using test::Wire;

int64_t num_calls_in_all = 10000;

int64_t BytesInUse() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

// Rank r contributes r + 1 in each place, so that whatever is combined lies between 1 and `size`.
// Returns in how many of its calls the rank was behind; one that others' work keeps from its core
// may be in all.
int64_t CallAtRandom(Ranks& ranks, int rank, int64_t num_calls, unsigned seed) {
  std::mt19937 random(seed * 100 + rank);
  int64_t behind = 0;
  for (int64_t i = 0; i < num_calls; ++i) {
    const unsigned draw = random() % 100;
    if (draw < 3) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    if (draw > 90) std::this_thread::yield();
    const PartialResult result =
        CallPartial(ranks[rank], std::vector<double>(5, rank + 1.0), "mean", 2);
    CHECK_EQ(Describe(result.ending), "");
    if (result.ending) return behind;
    for (double value : result.values) {
      CHECK_TRUE(value > 1 - 1e-9 && value < ranks.size() + 1e-9);
    }
    CHECK_TRUE(result.num_behind >= 0 && result.num_behind <= num_calls - i);
    behind += result.num_behind > 0;
  }
  return behind;
}

void CheckRounds(Wire wire, int size, int64_t num_calls) {
  Scope scope(std::to_string(size) + " ranks");
  Ranks ranks(wire, size, 60, 60);
  const auto run = [&](int64_t calls, unsigned seed) {
    std::atomic<int64_t> behind{0};
    ForEachRank(size, [&](int rank) { behind += CallAtRandom(ranks, rank, calls, seed); });
    CHECK_TRUE(behind.load() < size * calls);  // not all at once
  };
  run(100, 1);  // what is made once
  const int64_t before = BytesInUse();
  run(num_calls, 2);
  // Threads end with the run and leave a few blocks of their arenas; a call that kept anything
  // would leave 40 bytes and more each.
  CHECK_AT_MOST(static_cast<double>(BytesInUse() - before), 1e5 + 4.0 * num_calls);
}

TEST(RandomLateness) {
  for (int size : {1, 2, 3, 4, 5}) CheckRounds(Wire::kSharedMemory, size, num_calls_in_all / 5);
  CheckRounds(Wire::kCopies, 3, num_calls_in_all / 10);
}

}  // namespace
}  // namespace adasum

int main(int argc, char** argv) {
  if (argc > 1) adasum::num_calls_in_all = std::atoll(argv[1]);
  return adasum::test::RunAll();
}
