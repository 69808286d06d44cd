// The runs of a list of tensors that ranks of one host have finished, and read from each other: in
// pieces through their workspaces, and where they lie.

#include "cc/collectives/finished_runs.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/transport/dissemination.h"
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

constexpr int64_t kLong = int64_t{64} << 10;  // bytes; shorter tensors lie in no arena

// Elements of int64: long and short ones, of more than one piece; short ones that are many of the
// bytes; a few bytes in all.
const std::vector<int64_t> kMixed = {20000, 3, 0, 9000, 100, 300000, 1};
const std::vector<int64_t> kShort = {1000, 1000, 0, 8000, 7000};
const std::vector<int64_t> kFew = {3, 0, 5};

// Who has finished what: all ranks but the last, which has nothing where there are several.
std::vector<Range> RunsOf(int size, int64_t num_segments) {
  const int owners = size > 1 ? size - 1 : 1;
  std::vector<Range> runs(size);
  for (int k = 0; k < owners; ++k) {
    runs[k] = {num_segments * k / owners, num_segments * (k + 1) / owners};
  }
  return runs;
}

int64_t ValueOf(int64_t segment, int64_t i) { return segment * 1000000007 + i; }

void Fill(Elements* tensor, int64_t segment, bool is_finished) {
  auto* values = reinterpret_cast<int64_t*>(tensor->bytes());
  for (int64_t i = 0; i < tensor->size(); ++i) values[i] = is_finished ? ValueOf(segment, i) : -1;
}

int64_t NumWrong(const Elements& tensor, int64_t segment) {
  const auto* values = reinterpret_cast<const int64_t*>(tensor.bytes());
  int64_t num_wrong = 0;
  for (int64_t i = 0; i < tensor.size(); ++i) num_wrong += values[i] != ValueOf(segment, i);
  return num_wrong;
}

SquaredNorms NormsOf(int64_t segment) { return {segment + 0.5, segment + 0.25}; }

// A rank may come late to what it reads, or let nobody copy.
class Wires : public CountingTransport {
 public:
  Wires(Transport* inner, bool is_late, bool is_closed)
      : CountingTransport(inner), is_late_(is_late), is_closed_(is_closed) {}
  void Fetch(int peer, const std::vector<RemoteBytes>& parts) override {
    if (is_late_) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CountingTransport::Fetch(peer, parts);
  }
  void* Located(int peer, int64_t location, int64_t count) override {
    if (is_late_) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return CountingTransport::Located(peer, location, count);
  }
  bool LetsCopy(const std::vector<const void*>& tensors) const override {
    return !is_closed_ && CountingTransport::LetsCopy(tensors);
  }

 private:
  bool is_late_, is_closed_;
};

struct Case {
  Wire wire;
  bool is_in_arena = false;
  bool asks_for_norms = false;
  int late = -1, closed = -1;  // ranks
};

// What each rank read where it lay.
struct Counts {
  std::vector<int64_t> fetched_bytes, num_located;
};

// One rank's part. It writes over its own run as soon as it may.
void SpreadOn(World& world, int rank, const Case& of, const std::vector<int64_t>& list,
              Counts* counts) {
  Wires transport(&world.transport(rank), rank == of.late, rank == of.closed);
  const Segments segments(list);
  const std::vector<Range> runs = RunsOf(world.size(), segments.size());
  std::vector<Elements> tensors;
  std::vector<void*> addresses;
  std::vector<SquaredNorms> norms(segments.size());
  tensors.reserve(list.size());
  const auto is_own = [&](int64_t i) { return runs[rank].begin <= i && i < runs[rank].end; };
  for (int64_t i = 0; i < segments.size(); ++i) {
    tensors.emplace_back(DType::kInt64, list[i]);
    Fill(&tensors[i], i, is_own(i));
    addresses.push_back(list[i] == 0 ? nullptr : tensors[i].bytes());
    if (is_own(i)) norms[i] = NormsOf(i);
  }
  CpuArithmetic arithmetic(KernelsOf(WidestInstructionSet()), false);
  RunsScratch scratch;
  SpreadRuns(
      transport, runs,
      {DType::kInt64, segments, addresses, arithmetic, of.asks_for_norms ? norms.data() : nullptr},
      scratch);
  CHECK_TRUE(!transport.HasAbandoned());
  for (int64_t i = 0; i < segments.size(); ++i) {
    if (is_own(i)) Fill(&tensors[i], i, false);
  }
  for (int64_t i = 0; i < segments.size(); ++i) {
    if (!is_own(i)) CHECK_EQ(NumWrong(tensors[i], i), 0);
    if (!of.asks_for_norms) continue;
    CHECK_EQ(norms[i].result, NormsOf(i).result);
    CHECK_EQ(norms[i].leaves, NormsOf(i).leaves);
  }
  counts->fetched_bytes[rank] = transport.num_fetched;
  counts->num_located[rank] = transport.num_located;
  // Threads read each other's scratch until the next collective.
  Barrier(transport);
}

Counts Spread(int size, const Case& of, const std::vector<int64_t>& list) {
  Scope scope(std::to_string(size) + " ranks, " + WireName(of.wire) + ", " +
              std::to_string(list.size()) + " tensors");
  std::unique_ptr<InArena> in_arena;
  if (of.is_in_arena) in_arena = std::make_unique<InArena>();
  World world(of.wire, size);
  Counts counts{std::vector<int64_t>(size), std::vector<int64_t>(size)};
  ForEachRank(size, [&](int rank) { SpreadOn(world, rank, of, list, &counts); });
  return counts;
}

// Bytes of the long tensors in the others' runs, but for those of one rank.
int64_t LongBytes(int size, int rank, const std::vector<int64_t>& list, int without = -1) {
  const std::vector<Range> runs = RunsOf(size, list.size());
  int64_t num_bytes = 0;
  for (int of = 0; of < size; ++of) {
    for (int64_t i = runs[of].begin; of != rank && of != without && i < runs[of].end; ++i) {
      num_bytes += list[i] * 8 >= kLong ? list[i] * 8 : 0;
    }
  }
  return num_bytes;
}

constexpr int kSizes[] = {1, 2, 3, 4, 5};

TEST(AllRanksHaveAllRuns) {
  for (int size : kSizes) {
    for (const auto& list : {kMixed, kShort, kFew, std::vector<int64_t>{}}) {
      for (bool asks : {false, true}) {
        for (Wire wire : {Wire::kThreads, Wire::kCopies, Wire::kSharedMemory}) {
          const Counts counts = Spread(size, {wire, false, asks}, list);
          for (int rank = 0; rank < size; ++rank) {
            CHECK_EQ(counts.fetched_bytes[rank] + counts.num_located[rank], 0);
          }
        }
        for (bool is_in_arena : {false, true}) {
          Spread(size, {Wire::kSharedTensors, is_in_arena, asks}, list);
          Spread(size, {Wire::kCrossMemory, is_in_arena, asks}, list);
        }
      }
    }
  }
}

TEST(LongTensorsAreReadWhereTheyLie) {
  for (int size : {2, 3, 4, 5}) {
    const Counts across = Spread(size, {Wire::kCrossMemory}, kMixed);
    const Counts mapped = Spread(size, {Wire::kSharedTensors, true}, kMixed);
    const Counts apart = Spread(size, {Wire::kSharedTensors, false}, kMixed);
    for (int rank = 0; rank < size; ++rank) {
      const int64_t long_bytes = LongBytes(size, rank, kMixed);
      CHECK_EQ(across.fetched_bytes[rank], long_bytes);
      CHECK_EQ(across.num_located[rank], 0);
      CHECK_EQ(mapped.num_located[rank] > 0, long_bytes > 0);
      CHECK_EQ(mapped.fetched_bytes[rank], 0);
      CHECK_EQ(apart.num_located[rank], 0);
    }
  }
}

// Where short ones are many of a run's bytes they are copied across, too, and not twice.
TEST(ManyShortTensorsAreCopiedAcross) {
  const Counts counts = Spread(2, {Wire::kCrossMemory}, {1000, 1000, 0, 8000, 7000});
  CHECK_EQ(counts.fetched_bytes[0], 0);
  CHECK_EQ(counts.fetched_bytes[1], int64_t{17000} * 8);
}

// A few bytes are not worth a table.
TEST(FewBytesArePacked) {
  const Counts counts = Spread(3, {Wire::kCrossMemory}, kFew);
  for (int64_t bytes : counts.fetched_bytes) CHECK_EQ(bytes, 0);
}

// A rank that lets nobody copy shows its run in its workspace; others are read where they lie.
TEST(OneRankThatLetsNobodyCopy) {
  for (bool asks : {false, true}) {
    const Counts counts = Spread(4, {Wire::kCrossMemory, false, asks, -1, 2}, kMixed);
    for (int rank = 0; rank < 4; ++rank) {
      CHECK_EQ(counts.fetched_bytes[rank], LongBytes(4, rank, kMixed, 2));
    }
  }
}

// Whoever has a run may change it once it returns: the late ones have read it by then.
TEST(NobodyReturnsBeforeItsRunIsRead) {
  for (int late : {0, 1, 2}) {
    Spread(3, {Wire::kCrossMemory, false, false, late}, kMixed);
    Spread(3, {Wire::kSharedTensors, true, false, late}, kMixed);
  }
}

// A rank that is given up may come back and read: its peers say that they have abandoned memory.
TEST(SilentRankLeavesTensorsAbandoned) {
  World world(Wire::kCrossMemory, 2, 0.2);
  Elements tensor(DType::kInt64, 20000);
  const Segments segments({tensor.size()});
  const std::vector<void*> addresses = {tensor.bytes()};
  const std::vector<Range> runs = RunsOf(2, 1);
  CpuArithmetic arithmetic(KernelsOf(WidestInstructionSet()), false);
  RunsScratch scratch;
  CHECK_TRUE(test::TimesOut([&] {
    SpreadRuns(world.transport(0), runs, {DType::kInt64, segments, addresses, arithmetic, nullptr},
               scratch);
  }));
  CHECK_TRUE(world.transport(0).HasAbandoned());
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
