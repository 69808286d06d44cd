// Bytes that ranks of one host read from each other: in slots of a workspace, and where they lie.

#include "cc/collectives/shown_bytes.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cc/collectives/broadcast.h"
#include "cc/collectives/parts.h"
#include "cc/core/error.h"
#include "tests/cc/check.h"
#include "tests/cc/counting_transport.h"
#include "tests/cc/elements.h"
#include "tests/cc/worlds.h"

namespace adasum {
namespace {

using test::CountingTransport;
using test::Elements;
using test::ForEachRank;
using test::InArena;
using test::Scope;
using test::Wire;
using test::WireName;
using test::World;

constexpr int64_t kChunk = kCachedBytes;
// In bytes: nothing, a message, what is read in place; more pieces than there are slots.
const std::vector<int64_t> kLengths = {0,      8,          kOwnBytes,  kOwnBytes + 8,
                                       kChunk, kChunk + 8, 3 * kChunk, 7 * kChunk + 16};

// Where the bytes of a rank lie.
enum class Where { kApart, kInArena, kMixed };

std::vector<Elements> MakeBuffers(Where where, int rank, const std::vector<int64_t>& lengths) {
  std::unique_ptr<InArena> in_arena;
  if (where == Where::kInArena || (where == Where::kMixed && rank % 2 == 0)) {
    in_arena = std::make_unique<InArena>();
  }
  std::vector<Elements> buffers;
  for (int64_t length : lengths) buffers.emplace_back(DType::kInt64, length / 8);
  return buffers;
}

// What element i of buffer `number` of a rank holds.
int64_t ValueOf(int64_t rank, int64_t number, int64_t i) {
  return rank * 1000000007 + number * 1009 + i;
}

void Fill(int rank, std::vector<Elements>* buffers) {
  for (size_t number = 0; number < buffers->size(); ++number) {
    auto* values = reinterpret_cast<int64_t*>((*buffers)[number].bytes());
    for (int64_t i = 0; i < (*buffers)[number].size(); ++i) {
      values[i] = ValueOf(rank, static_cast<int64_t>(number), i);
    }
  }
}

void CheckHas(const Elements& buffer, int rank, int number) {
  const auto* values = reinterpret_cast<const int64_t*>(buffer.bytes());
  int64_t num_wrong = 0;
  for (int64_t i = 0; i < buffer.size(); ++i) num_wrong += values[i] != ValueOf(rank, number, i);
  CHECK_EQ(num_wrong, int64_t{0});
}

// Counts what is put into a workspace, and sees the longest message.
class WatchedTransport : public CountingTransport {
 public:
  using CountingTransport::CountingTransport;
  void* Workspace(int64_t bytes) override {
    ++num_workspaces;
    return CountingTransport::Workspace(bytes);
  }
  void SendRecv(const Send& send, const Recv& recv) override {
    longest = std::max({longest, send.num_bytes, recv.num_bytes});
    CountingTransport::SendRecv(send, recv);
  }
  int64_t num_workspaces = 0;
  int64_t longest = 0;
};

// Runs body(rank, transport) on all ranks of several worlds; where all lies in reach of all, or may
// be copied across, no rank may take a workspace, and where nothing does some have to.
template <typename Body>
void OnEveryWorld(Wire wire, Body body) {
  for (Where where : {Where::kApart, Where::kInArena, Where::kMixed}) {
    for (int size : {1, 2, 3, 4, 5, 8}) {
      Scope scope(std::string(WireName(wire)) + ", " + std::to_string(size) + " ranks, " +
                  std::to_string(static_cast<int>(where)));
      World world(wire, size);
      std::vector<int64_t> num_workspaces(size);
      ForEachRank(size, [&](int rank) {
        // Every third rank takes its time over each message.
        const auto dawdle = [rank] {
          if (rank % 3 == 1) std::this_thread::sleep_for(std::chrono::microseconds(200));
        };
        WatchedTransport transport(&world.transport(rank), dawdle);
        body(where, rank, transport);
        CHECK_EQ(world.transport(rank).HasAbandoned(), false);
        num_workspaces[rank] = transport.num_workspaces;
      });
      int64_t total = 0;
      for (int64_t each : num_workspaces) total += each;
      const bool may_copy = wire == Wire::kCrossMemory;
      if (may_copy || where == Where::kInArena) CHECK_EQ(total, int64_t{0});
      if (!may_copy && where == Where::kApart) CHECK_EQ(total > 0, size > 1);
    }
  }
}
template <typename Body>
void OnEveryWorld(Body body) {
  for (Wire wire : {Wire::kSharedTensors, Wire::kCrossMemory}) OnEveryWorld(wire, body);
}

TEST(BroadcastFromEveryRoot) {
  OnEveryWorld([](Where where, int rank, Transport& transport) {
    for (int root = 0; root < transport.size(); ++root) {
      std::vector<Elements> buffers = MakeBuffers(where, rank, kLengths);
      Fill(rank, &buffers);
      std::vector<void*> pointers;
      for (Elements& buffer : buffers) pointers.push_back(buffer.bytes());
      Broadcast(transport, root, pointers, kLengths);
      for (size_t i = 0; i < buffers.size(); ++i) CheckHas(buffers[i], root, static_cast<int>(i));
    }
  });
}

// By messages each of which comes within the limit of a wait.
TEST(LongBroadcastsComeInParts) {
  const int64_t length = kMessageBytes + 1000;
  for (int size : {2, 3}) {
    Scope scope(std::to_string(size) + " ranks");
    World world(Wire::kCopies, size);
    ForEachRank(size, [&](int rank) {
      std::vector<Elements> buffers = MakeBuffers(Where::kApart, rank, {length});
      Fill(rank, &buffers);
      WatchedTransport transport(&world.transport(rank));
      Broadcast(transport, size - 1, {buffers[0].bytes()}, {length});
      CheckHas(buffers[0], size - 1, 0);
      CHECK_EQ(transport.longest, kMessageBytes);
    });
  }
}

// The length of the part from one rank to another: any of the above.
int64_t LengthOf(int from, int to, int round) {
  return kLengths[(from * 3 + to * 5 + round) % kLengths.size()];
}

TEST(PartsFromAllToAll) {
  OnEveryWorld([](Where where, int rank, Transport& transport) {
    const int size = transport.size();
    for (int round = 0; round < 4; ++round) {
      std::vector<int64_t> given, taken;
      for (int peer = 0; peer < size; ++peer) {
        given.push_back(LengthOf(rank, peer, round));
        taken.push_back(LengthOf(peer, rank, round));
      }
      std::vector<Elements> sent = MakeBuffers(where, rank, given);
      std::vector<Elements> received = MakeBuffers(Where::kApart, rank, taken);
      Fill(rank, &sent);
      ExchangeParts(
          transport, [&](int peer) { return Part{sent[peer].bytes(), given[peer]}; },
          [&](int peer) { return PartOfResult{received[peer].bytes(), taken[peer]}; });
      for (int peer = 0; peer < size; ++peer) CheckHas(received[peer], peer, rank);
    }
  });
}

// A rank whose reader never comes gives up, and whoever owns the bytes is to keep them.
TEST(BytesThatNobodyReadsAreAbandoned) {
  struct Case {
    Wire wire;
    bool lies_in_reach;
  };
  for (const auto& [wire, lies_in_reach] : {Case{Wire::kSharedTensors, false},
                                            {Wire::kSharedTensors, true},
                                            {Wire::kCrossMemory, false}}) {
    World world(wire, 2, 0.2);
    std::vector<Elements> buffer =
        MakeBuffers(lies_in_reach ? Where::kInArena : Where::kApart, 0, {kChunk});
    ShownBytes shown(&world.transport(0));
    CHECK_TRUE(
        test::TimesOut([&] { shown.Exchange({{1}, buffer[0].bytes(), kChunk}, {1, nullptr, 0}); }));
    CHECK_EQ(world.transport(0).HasAbandoned(), lies_in_reach || wire == Wire::kCrossMemory);
  }
}

// The limit of a wait is for silence: a message that goes on arriving is none.
TEST(MessageInManyPiecesMayTakeLongerThanAWait) {
  constexpr int kPieces = 25;
  // Long for a piece that a loaded machine is late with, and shorter than all pieces take.
  World world(Wire::kSharedMemory, 2, 2);
  ForEachRank(2, [&](int rank) {
    std::string bytes(kPieces * 100, rank == 0 ? ' ' : 'x');
    if (rank == 0) {
      world.transport(0).SendRecv({0, nullptr, 0}, {1, bytes.data(), kPieces * 100});
      return CHECK_EQ(bytes, std::string(kPieces * 100, 'x'));
    }
    for (int i = 0; i < kPieces; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      world.transport(1).SendRecv({0, bytes.data(), 100}, {0, nullptr, 0});
    }
  });
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
