// What goes with a request's key to all ranks at once, and the messages in which it goes.

#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/cc/check.h"
#include "tests/cc/ranks.h"

namespace adasum {
namespace {

using test::CheckUsable;
using test::Describe;
using test::Ending;
using test::ForEachRank;
using test::Is;
using test::Pending;
using test::Ranks;
using test::Scope;
using test::VectorRequest;
using test::Wire;
using test::World;

// The message of a rank in a round: of a length of its own, 0 among them.
std::string MessageOf(int rank, int round) {
  const int64_t lengths[] = {0, 1, 48, 49, 1000, kSwapBytes};
  return std::string(lengths[(rank + round) % 6], static_cast<char>('a' + (rank * 7 + round) % 26));
}

TEST(EveryRankHasTheMessagesOfAll) {
  for (int size : {2, 3, 4, 5, 8}) {
    Scope scope(std::to_string(size) + " ranks");
    World world(Wire::kSharedMemory, size);
    ForEachRank(size, [&](int rank) {
      Transport& transport = world.transport(rank);
      CHECK_EQ(transport.SwapBytes(), kSwapBytes);
      std::vector<char> received(size * kSwapBytes, '-');
      std::vector<int64_t> num_received(size, -2);
      for (int round = 0; round < 200; ++round) {
        const std::string mine = MessageOf(rank, round);
        transport.SwapWithAll(mine.data(), static_cast<int64_t>(mine.size()), received.data(),
                              num_received.data());
        for (int peer = 0; peer < size; ++peer) {
          if (peer == rank) continue;
          const std::string theirs(received.data() + peer * kSwapBytes, num_received[peer]);
          CHECK_EQ(theirs, MessageOf(peer, round));
        }
      }
      CHECK_EQ(num_received[rank], int64_t{-2});
      CHECK_EQ(received[rank * kSwapBytes], '-');
    });
  }
}

TEST(RankThatOnlySendsTakesPart) {
  World world(Wire::kSharedMemory, 3);
  ForEachRank(3, [&](int rank) {
    Transport& transport = world.transport(rank);
    const char mine = static_cast<char>('a' + rank);
    if (rank == 2) {
      for (int peer : {0, 1}) transport.SendRecv({peer, &mine, 1}, {0, nullptr, 0});
      return;
    }
    std::vector<char> received(3 * kSwapBytes);
    std::vector<int64_t> num_received(3);
    transport.SwapWithAll(&mine, 1, received.data(), num_received.data());
    CHECK_EQ(num_received[2], int64_t{1});
    CHECK_EQ(received[2 * kSwapBytes], 'c');
    CHECK_EQ(received[(1 - rank) * kSwapBytes], static_cast<char>('b' - rank));
  });
}

TEST(LongerMessageIsRefused) {
  World world(Wire::kSharedMemory, 2);
  ForEachRank(2, [&](int rank) {
    std::vector<char> bytes(2 * kSwapBytes);
    int64_t num_received[2];
    if (rank == 1) {
      return world.transport(1).SendRecv({0, bytes.data(), kSwapBytes + 1}, {0, nullptr, 0});
    }
    try {
      world.transport(0).SwapWithAll("", 1, bytes.data(), num_received);
      CHECK_TRUE(false);
    } catch (const Error& error) {
      CHECK_TRUE(error.code() == ErrorCode::kInternal);
    }
  });
}

// A rank alone, and more ranks than send to all, have other ways.
TEST(WhereThereIsNoMessageToAll) {
  for (int size : {1, 9}) {
    CHECK_EQ(World(Wire::kSharedMemory, size).transport(0).SwapBytes(), int64_t{0});
  }
  CHECK_EQ(World(Wire::kThreads, 2).transport(0).SwapBytes(), int64_t{0});
  for (int size : {1, 9, 12}) {
    Ranks ranks(Wire::kSharedMemory, size);
    for (const char* name : {"first", "second"}) CheckUsable(ranks, name);
    ForEachRank(size, [&](int rank) { ranks[rank].Shutdown(); });
  }
}

// What `run` of a request has found.
struct Found {
  bool is_enclosed = false;
  std::vector<int64_t> values;  // of every rank
};

// Encloses one number.
Request NumberRequest(const std::string& name, int64_t number, Found* found, Done done) {
  auto run = [found](RequestContext& context) {
    found->is_enclosed = context.enclosed.first != nullptr;
    if (!found->is_enclosed) return;
    for (int rank = 0; rank < context.transport.size(); ++rank) {
      int64_t value;
      std::memcpy(&value, context.enclosed.Of(rank), sizeof(value));
      found->values.push_back(value);
    }
  };
  Request request{RequestKey(name, "a number"), run, std::move(done)};
  request.enclosure = {sizeof(number),
                       [number](char* to) { std::memcpy(to, &number, sizeof(number)); }};
  return request;
}

TEST(RequestFindsWhatAllHaveEnclosed) {
  for (Wire wire : {Wire::kSharedMemory, Wire::kCopies}) {
    for (int size : {2, 3, 5, 8}) {
      Scope scope(std::string(WireName(wire)) + ", " + std::to_string(size) + " ranks");
      Ranks ranks(wire, size);
      ForEachRank(size, [&](int rank) {
        for (int64_t round : {1, 2, 3}) {
          Found found;
          Pending pending;
          ranks[rank].Enqueue(NumberRequest("number", 10 * rank + round, &found, pending.done()));
          CHECK_EQ(Describe(pending.Await()), "");
          CHECK_EQ(found.is_enclosed, wire == Wire::kSharedMemory);
          for (size_t peer = 0; peer < found.values.size(); ++peer) {
            CHECK_EQ(found.values[peer], 10 * static_cast<int64_t>(peer) + round);
          }
        }
      });
    }
  }
}

// The first requests differ: what came with them is none of what runs in the end, on any rank.
TEST(NothingIsEnclosedWhereRanksHaveComparedAll) {
  for (int size : {2, 3, 5}) {
    Scope scope(std::to_string(size) + " ranks");
    Ranks ranks(Wire::kSharedMemory, size);
    std::atomic<int> num_enclosed{0};
    ForEachRank(size, [&](int rank) {
      // One more on rank 0, and ahead: all have to look at the lists for "shared".
      Found of_alone, of_shared, of_late;
      Pending alone, shared, late;
      if (rank == 0) ranks[0].Enqueue(NumberRequest("alone", 0, &of_alone, alone.done()));
      ranks[rank].Enqueue(NumberRequest("shared", rank, &of_shared, shared.done()));
      CHECK_EQ(Describe(shared.Await()), "");
      num_enclosed += of_shared.is_enclosed;
      if (rank > 0) ranks[rank].Enqueue(NumberRequest("alone", rank, &of_alone, alone.done()));
      CHECK_EQ(Describe(alone.Await()), "");
      ranks[rank].Enqueue(NumberRequest("late", 7 * rank, &of_late, late.done()));
      CHECK_EQ(Describe(late.Await()), "");
      CHECK_TRUE(of_late.is_enclosed);
      CHECK_EQ(of_late.values.back(), int64_t{7} * (size - 1));
    });
    CHECK_EQ(num_enclosed.load(), 0);
  }
}

// Of a key that is the same on all ranks, lists of which one encloses less than it says.
TEST(ShorterEnclosureIsRefused) {
  Ranks ranks(Wire::kSharedMemory, 2);
  ForEachRank(2, [&](int rank) {
    Found found;
    Pending pending;
    Request request = NumberRequest("number", rank, &found, pending.done());
    if (rank == 1) request.enclosure = {};
    ranks[rank].Enqueue(std::move(request));
    const Ending ending = pending.Await();
    if (rank == 0) CHECK_TRUE(Is(ending, ErrorCode::kInternal));
  });
}

// Vectors below and above what is enclosed, and lists whose sum is.
TEST(ShortAndLongVectorsInTurns) {
  for (int size : {2, 3, 5}) {
    Scope scope(std::to_string(size) + " ranks");
    Ranks ranks(Wire::kSharedMemory, size);
    ForEachRank(size, [&](int rank) {
      for (int64_t count : {1, 512, 513, 512, 2000, 0, 511}) {
        VectorRequest request(ranks[rank], "vector", std::vector<double>(count, rank + 1.0));
        CHECK_EQ(Describe(request.Await()), "");
        for (double value : request.result()) CHECK_EQ(value, size * (size + 1) / 2.0);
      }
    });
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
