// Tensors anywhere in the ranks' processes, from and to which they copy: the bits of packed ones,
// and no other bytes moved than these.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/core/error.h"
#include "cc/transport/process_memory.h"
#include "cc/transport/shm_transport.h"
#include "tests/cc/check.h"
#include "tests/cc/counting_transport.h"
#include "tests/cc/elements.h"
#include "tests/cc/reduced_leaves.h"
#include "tests/cc/worlds.h"

namespace adasum {
namespace {

using test::CheckAgainstTree;
using test::Elements;
using test::ForEachRank;
using test::kDTypes;
using test::kReductions;
using test::Leaves;
using test::Outcome;
using test::Outputs;
using test::RandomLeaves;
using test::ReduceOnAllRanks;
using test::Scope;
using test::Set;
using test::TimesOut;
using test::Wire;
using test::World;

constexpr int kSizes[] = {2, 3, 4, 5, 8};

// Elements of 80 KiB of any dtype but bool. Odd, so that parts begin anywhere.
int64_t LargeCount(DType dtype) { return (int64_t{80} << 10) / ElementBytes(dtype) + 13; }

int64_t BytesOf(const std::vector<Elements>& tensors) {
  int64_t num_bytes = 0;
  for (const Elements& tensor : tensors) num_bytes += tensor.num_bytes();
  return num_bytes;
}

void CheckSameBits(const Leaves& results, const std::vector<Elements>& expected) {
  for (const std::vector<Elements>& of_rank : results) {
    for (size_t i = 0; i < expected.size(); ++i) {
      CHECK_EQ(std::memcmp(of_rank[i].bytes(), expected[i].bytes(), expected[i].num_bytes()), 0);
    }
  }
}

// What all have copied: results go to all other leaves once, and what is combined comes from them
// once or, of the chunks that had to make room, twice.
void CheckCopied(const Outcome& outcome, int64_t num_bytes) {
  const int64_t all = num_bytes * (static_cast<int64_t>(outcome.num_fetched.size()) - 1);
  const auto sum = [](const std::vector<int64_t>& of_ranks) {
    return std::accumulate(of_ranks.begin(), of_ranks.end(), int64_t{0});
  };
  CHECK_EQ(sum(outcome.num_stored), all);
  CHECK_TRUE(sum(outcome.num_fetched) >= all);
  CHECK_AT_MOST(sum(outcome.num_fetched), 2 * all);
}

void CheckLists(int size, const char* reduction, DType dtype, const std::vector<int64_t>& counts) {
  Scope scope(std::to_string(size) + " ranks, " + reduction + ", " + DTypeName(dtype));
  Leaves inputs = RandomLeaves(size, dtype, counts);
  const Leaves before(inputs);
  const Outcome packed = ReduceOnAllRanks(Wire::kSharedMemory, reduction, inputs);
  CHECK_EQ(packed.num_fetched[0] + packed.num_stored[0], 0);
  const Outcome apart = ReduceOnAllRanks(Wire::kCrossMemory, reduction, inputs);
  CheckSameBits(apart.outputs, packed.outputs[0]);
  CheckCopied(apart, BytesOf(before[0]));
  for (int rank = 0; rank < size; ++rank) CheckSameBits({inputs[rank]}, before[rank]);
  const Outcome in_place =
      ReduceOnAllRanks(Wire::kCrossMemory, reduction, inputs, Outputs::kInPlace);
  CheckSameBits(inputs, packed.outputs[0]);
  CheckCopied(in_place, BytesOf(before[0]));
}

TEST(BitsOfPackedTensors) {
  for (int size : kSizes) {
    for (const char* reduction : kReductions) {
      for (DType dtype : kDTypes) {
        if (std::strcmp(reduction, "adasum") == 0 && !IsFloating(dtype)) continue;
        if (dtype == DType::kBool && std::strcmp(reduction, "mean") == 0) continue;
        const int64_t large = LargeCount(dtype);
        CheckLists(size, reduction, dtype, {large});
        CheckLists(size, reduction, dtype, {large, 0, 13, large + 1, 100});
      }
    }
  }
}

// More parts than the system takes in one call, and none of them in the arena's lengths.
TEST(ManyShortTensors) {
  std::vector<int64_t> counts(5000, 7);
  counts[17] = 0;
  CheckLists(2, "adasum", DType::kFloat32, counts);
  CheckLists(3, "sum", DType::kFloat32, counts);
}

// Chunks make room for later ones, and are fetched again.
TEST(LongTensors) {
  for (int size : {2, 3}) CheckLists(size, "adasum", DType::kFloat32, {3'000'001, 9, 1'000'000});
  CheckLists(2, "sum", DType::kFloat32, {3'000'001});
}

// Moments must be taken on the way: nothing is written before that is known.
TEST(WhatCancelsOnTheWay) {
  for (int size : {3, 4, 5, 8}) {
    Scope scope(std::to_string(size) + " ranks");
    const int64_t large = LargeCount(DType::kFloat64);
    Leaves inputs = RandomLeaves(size, DType::kFloat64, {large, large});
    // The first two to meet, of which the right one becomes nearly the left one's opposite.
    const int left = 0, right = size == 3 ? 2 : (size == 5 ? 4 : 1);
    for (int64_t i = 0; i < large; ++i) {
      Set(DType::kFloat64, inputs[right][1].bytes(), i, 1e-2 - inputs[left][1][i]);
    }
    const Leaves before(inputs);
    const Outcome outcome =
        ReduceOnAllRanks(Wire::kCrossMemory, "adasum", inputs, Outputs::kInPlace);
    CheckAgainstTree("adasum", before, inputs);
    CHECK_TRUE(outcome.num_fetched[0] > 0);
    CHECK_EQ(outcome.num_stored[0], 0);
  }
}

void ReduceInPlace(std::vector<Elements>* tensors, Transport* transport, LeafScratch* scratch) {
  std::vector<int64_t> counts;
  std::vector<void*> out;
  for (Elements& tensor : *tensors) {
    counts.push_back(tensor.size());
    out.push_back(tensor.bytes());
  }
  const Segments segments(counts);
  const std::vector<const void*> in(out.begin(), out.end());
  CpuArithmetic arithmetic(KernelsOf(WidestInstructionSet()), false);
  ReduceLeaves({DType::kFloat32, segments, in, out},
               {FindReduction("adasum"), *transport, arithmetic, *scratch});
}

// A rank that is given up may come back and write: its peers say that they have abandoned memory.
TEST(SilentRankLeavesTensorsAbandoned) {
  World world(Wire::kCrossMemory, 2, 2);  // long for ranks that come late on a loaded machine
  Leaves tensors(2, {Elements(DType::kFloat32, LargeCount(DType::kFloat32))});
  const auto reduce = [&](int rank) {
    LeafScratch scratch;
    scratch.cross_memory.CopyAlways();
    ReduceInPlace(&tensors[rank], &world.transport(rank), &scratch);
  };
  ForEachRank(2, reduce);
  CHECK_TRUE(!world.transport(0).HasAbandoned());
  CHECK_TRUE(TimesOut([&] { reduce(0); }));
  CHECK_TRUE(world.transport(0).HasAbandoned());
}

// Counts how often the system is asked whether others may copy; a closed one lets nobody.
class AskedTransport : public test::CountingTransport {
 public:
  AskedTransport(Transport* inner, bool is_closed)
      : CountingTransport(inner), is_closed_(is_closed) {}
  bool LetsCopy(const std::vector<const void*>& tensors) const override {
    ++num_asked;
    return !is_closed_ && CountingTransport::LetsCopy(tensors);
  }

  mutable int num_asked = 0;

 private:
  const bool is_closed_;
};

// One rank's tensors lie where nobody may copy: all pack.
TEST(OneRankThatLetsNobodyCopy) {
  for (int closed : {-1, 0, 2}) {
    Scope scope("rank " + std::to_string(closed));
    constexpr int kRanks = 3;
    World world(Wire::kCrossMemory, kRanks);
    Leaves inputs = RandomLeaves(kRanks, DType::kFloat32, {LargeCount(DType::kFloat32), 5});
    const Leaves before(inputs);
    ForEachRank(kRanks, [&](int rank) {
      AskedTransport transport(&world.transport(rank), rank == closed);
      LeafScratch scratch;
      scratch.cross_memory.CopyAlways();
      ReduceInPlace(&inputs[rank], &transport, &scratch);
      CHECK_EQ(transport.num_stored > 0, closed < 0);
      CHECK_TRUE(!transport.HasAbandoned());
    });
    CheckAgainstTree("adasum", before, inputs);
  }
}

// The system takes microseconds to answer, which a short vector is packed in.
TEST(RanksThatPackDoNotAskTheSystem) {
  for (int size : kSizes) {
    Scope scope(std::to_string(size) + " ranks");
    World world(Wire::kCrossMemory, size);
    Leaves inputs = RandomLeaves(size, DType::kFloat32, {LargeCount(DType::kFloat32), 5});
    ForEachRank(size, [&](int rank) {
      AskedTransport transport(&world.transport(rank), false);
      LeafScratch scratch;
      ReduceInPlace(&inputs[rank], &transport, &scratch);
      CHECK_EQ(transport.num_stored.load(), 0);  // the first of a kind is packed,
      CHECK_EQ(transport.num_asked, 0);
      ReduceInPlace(&inputs[rank], &transport, &scratch);
      CHECK_TRUE(transport.num_stored.load() > 0);  // the second copied
      CHECK_EQ(transport.num_asked, 1);
    });
  }
}

void CheckRefused(const ProcessMemory& memory, const RemoteBytes& part) {
  for (bool stores : {false, true}) {
    try {
      stores ? memory.Store({part}) : memory.Fetch({part});
      test::Fail(__FILE__, __LINE__, "expected an Error");
    } catch (const Error& error) {
      CHECK_TRUE(error.code() == ErrorCode::kInternal);
      CHECK_TRUE(std::strstr(error.what(), "the memory of rank 5") != nullptr);
    }
  }
}

TEST(MemoryThatIsNotThereIsAnError) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  void* const two =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK_TRUE(two != MAP_FAILED);
  // The first page is there, the second one is not.
  CHECK_EQ(munmap(static_cast<char*>(two) + page, page), 0);
  std::vector<char> here(2 * page, 'h');
  const ProcessMemory own(getpid(), 5);
  CheckRefused(own, {here.data(), reinterpret_cast<intptr_t>(two), 2 * page});
  CHECK_TRUE(own.HasPages({here.data(), two}));
  CHECK_TRUE(!own.HasPages({here.data(), static_cast<char*>(two) + page}));
  // More than the system looks at in one call, of which the last is not there.
  std::vector<const void*> many(3000, two);
  CHECK_TRUE(own.HasPages(many) && own.HasPages({}));
  many.back() = static_cast<char*>(two) + page;
  CHECK_TRUE(!own.HasPages(many));
  own.Store({{here.data(), reinterpret_cast<intptr_t>(two), page}});
  CHECK_EQ(std::memcmp(two, here.data(), page), 0);
  munmap(two, page);
}

TEST(ProcessThatHasEndedIsAnError) {
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  int status = 0;
  waitpid(ended, &status, 0);
  char here = 0;
  CheckRefused(ProcessMemory(ended, 5), {&here, reinterpret_cast<intptr_t>(&here), 1});
}

// Another process under the id of a rank's has other bytes at the token's address.
TEST(ProcessWithoutTheTokenIsNotReached) {
  const WaitControl waits;
  ShmTransport first(0, 2, waits), second(1, 2, waits);
  const std::string mine = first.Address(), theirs = second.Address();
  first.Connect({mine, theirs});
  CHECK_TRUE(first.ReachProcesses({mine, theirs}));
  const std::string elsewhere = mine.substr(mine.rfind(' '));
  CHECK_TRUE(!first.ReachProcesses({mine, theirs.substr(0, theirs.rfind(' ')) + elsewhere}));
  CHECK_TRUE(!first.ReachProcesses({mine, theirs.substr(0, theirs.rfind(' ')) + " 64"}));
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
