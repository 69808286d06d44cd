// The stages of a local reduction on ranks as they are: shared memory on each host, messages
// between hosts, and one rank that is late wherever it reads.

#include "cc/collectives/hierarchy.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/collectives/blocks.h"
#include "tests/cc/check.h"
#include "tests/cc/counting_transport.h"
#include "tests/cc/elements.h"
#include "tests/cc/hosts_transport.h"
#include "tests/cc/worlds.h"

namespace adasum {
namespace {

using test::CountingTransport;
using test::HostsTransport;
using test::InArena;
using test::Scope;
using test::Wire;
using test::World;

// Comes late to everything that it copies, delivers or adds.
class LateArithmetic : public CpuArithmetic {
 public:
  explicit LateArithmetic(std::chrono::milliseconds delay) : delay_(delay) {}
  void Copy(void* to, const void* from, int64_t num_bytes) override {
    std::this_thread::sleep_for(delay_);
    CpuArithmetic::Copy(to, from, num_bytes);
  }
  void Deliver(void* to, const void* from, int64_t num_bytes) override {
    std::this_thread::sleep_for(delay_);
    CpuArithmetic::Deliver(to, from, num_bytes);
  }
  void Add(DType dtype, const std::vector<Piece>& pieces) override {
    std::this_thread::sleep_for(delay_);
    CpuArithmetic::Add(dtype, pieces);
  }

 private:
  std::chrono::milliseconds delay_;
};

// Ranks on hosts that reduce the same list of float32 tensors again and again.
class Ranks {
 public:
  Ranks(HostRanks hosts, std::vector<int64_t> counts, Wire on_host = Wire::kSharedMemory)
      : hosts_(std::move(hosts)), segments_(counts), all_(Wire::kCopies, NumRanks(hosts_)) {
    host_of_.resize(all_.size());
    for (const auto& ranks : hosts_) {
      for (int rank : ranks) host_of_[rank] = static_cast<int>(on_host_.size());
      on_host_.push_back(std::make_unique<World>(on_host, ranks.size()));
    }
  }

  // Runs `rounds` requests, between which the ranks agree on nothing but their number; returns how
  // many elements and norms were wrong on any rank.
  int64_t Reduce(int rounds, int late_rank) {
    std::vector<int64_t> num_wrong(all_.size(), 0);
    test::ForEachRank(all_.size(), [&](int rank) {
      const int host = host_of_[rank];
      const std::vector<int>& ranks = hosts_[host];
      int index = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
      CountingTransport counting(&on_host_[host]->transport(index));
      HostsTransport transport(&all_.transport(rank), &counting, ranks);
      LateArithmetic arithmetic(std::chrono::milliseconds(rank == late_rank ? 1 : 0));
      LeafScratch scratch;
      scratch.cross_memory.CopyAlways();
      HierarchyScratch hierarchy_scratch;
      Hierarchy hierarchy(&transport, hosts_, &hierarchy_scratch);
      for (int round = 0; round < rounds; ++round) {
        num_wrong[rank] += ReduceOnce(rank, round, &hierarchy, arithmetic, scratch);
        Agree(transport);
      }
      CHECK_TRUE(!counting.HasAbandoned());
      num_fetched_ += counting.num_fetched;
      num_stored_ += counting.num_stored;
      num_located_ += counting.num_located;
    });
    int64_t total = 0;
    for (int64_t count : num_wrong) total += count;
    return total;
  }

  // What ranks of a host copied of each other, in bytes, and tensors that they found mapped.
  int64_t num_fetched() const { return num_fetched_; }
  int64_t num_stored() const { return num_stored_; }
  int64_t num_located() const { return num_located_; }

 private:
  static int NumRanks(const HostRanks& hosts) {
    int count = 0;
    for (const auto& ranks : hosts) count += static_cast<int>(ranks.size());
    return count;
  }

  // Element i belongs to one host alone: across hosts vectors are orthogonal, and all sums exact.
  float Value(int rank, int round, int64_t i) const {
    bool is_own = i % static_cast<int64_t>(hosts_.size()) == host_of_[rank];
    return is_own ? static_cast<float>((i * 7 + rank * 131 + round * 17) % 1021) : 0.0f;
  }

  int64_t ReduceOnce(int rank, int round, Hierarchy* hierarchy, Arithmetic& arithmetic,
                     LeafScratch& scratch) const {
    std::vector<float, test::ElementsAllocator<float>> values(segments_.num_elements());
    for (int64_t i = 0; i < segments_.num_elements(); ++i) values[i] = Value(rank, round, i);
    std::vector<const void*> inputs;
    std::vector<void*> outputs;  // in place, as in a training step
    for (int64_t tensor = 0; tensor < segments_.size(); ++tensor) {
      inputs.push_back(&values[segments_.offset(tensor)]);
      outputs.push_back(&values[segments_.offset(tensor)]);
    }
    hierarchy->ReduceHost({DType::kFloat32, segments_, inputs, outputs},
                          {FindReduction("sum"), hierarchy->host(), arithmetic, scratch});
    std::vector<SquaredNorms> norms(segments_.size());
    const bool asks = round % 2 == 0;
    hierarchy->CombineHosts(FindReduction("adasum"), DType::kFloat32, segments_, outputs,
                            arithmetic, asks ? norms.data() : nullptr);
    int64_t num_wrong = 0;
    for (int64_t i = 0; i < segments_.num_elements(); ++i) {
      float expected = 0;
      for (int of = 0; of < all_.size(); ++of) expected += Value(of, round, i);
      num_wrong += values[i] != expected;
    }
    return num_wrong + (asks ? NumWrongNorms(values, norms) : 0);
  }

  // Of hosts that are orthogonal, whole numbers: exact.
  template <typename Values>
  int64_t NumWrongNorms(const Values& values, const std::vector<SquaredNorms>& norms) const {
    int64_t num_wrong = 0;
    for (int64_t tensor = 0; tensor < segments_.size(); ++tensor) {
      double expected = 0;
      for (int64_t i = segments_.offset(tensor); i < segments_.offset(tensor + 1); ++i) {
        expected += static_cast<double>(values[i]) * values[i];
      }
      num_wrong += norms[tensor].result != expected || norms[tensor].leaves != expected;
    }
    return num_wrong;
  }

  // The engine's negotiation before the next request, as far as memory is concerned.
  static void Agree(Transport& transport) {
    char mine = 0, theirs = 0;
    for (int to = 0; to < transport.size(); ++to) {
      for (int from = 0; from < transport.size(); ++from) {
        if (from == to) continue;
        if (transport.rank() == from) transport.SendRecv({to, &mine, 1}, {0, nullptr, 0});
        if (transport.rank() == to) transport.SendRecv({0, nullptr, 0}, {from, &theirs, 1});
      }
    }
  }

  const HostRanks hosts_;
  const Segments segments_;
  World all_;
  std::vector<int> host_of_;
  std::vector<std::unique_ptr<World>> on_host_;
  std::atomic<int64_t> num_fetched_{0}, num_stored_{0}, num_located_{0};
};

const HostRanks kMaps[] = {{{0}, {1}},       {{0, 1}, {2}},       {{0}, {1, 2}},
                           {{0, 2}, {1, 3}}, {{0, 1, 2}, {3, 4}}, {{0, 3}, {1}, {2, 4, 5}}};

std::string Describe(const HostRanks& hosts) {
  std::string text;
  for (const auto& ranks : hosts) text += (text.empty() ? "" : "+") + std::to_string(ranks.size());
  return text + " ranks";
}

TEST(SumsOfHostsThatAreOrthogonal) {
  for (const HostRanks& hosts : kMaps) {
    for (const std::vector<int64_t>& counts :
         {std::vector<int64_t>{1000}, {0, 1}, {5, 0, 300, 1, 70000, 64}}) {
      Scope scope(Describe(hosts) + ", " + std::to_string(counts.size()) + " tensors");
      CHECK_EQ(Ranks(hosts, counts).Reduce(3, -1), int64_t{0});
    }
  }
}

// 1.5 MiB, more than a block, that runs can cut evenly.
const std::vector<int64_t> kLong = {5, 90000, 0, 100000, 30, 95000, 110000, 1};

// Each rank of a host gets its run of the host's sum, and nothing is stored to others.
TEST(HostsWhoseTensorsAreInReach) {
  for (const HostRanks& hosts : kMaps) {
    Scope scope(Describe(hosts));
    const bool has_peers =
        std::any_of(hosts.begin(), hosts.end(), [](const auto& ranks) { return ranks.size() > 1; });
    // Runs are as many as the smallest host has ranks; few of them are too long for one of many.
    const auto has_fewer = [](const auto& a, const auto& b) { return a.size() < b.size(); };
    const auto [fewest, most] = std::minmax_element(hosts.begin(), hosts.end(), has_fewer);
    const bool has_shares = most->size() <= 2 * fewest->size();
    Ranks across(hosts, kLong, Wire::kCrossMemory);
    CHECK_EQ(across.Reduce(3, -1), int64_t{0});
    CHECK_EQ(across.num_fetched() > 0, has_peers);
    if (has_shares) CHECK_EQ(across.num_stored(), 0);
    CHECK_EQ(across.num_located(), 0);
    const InArena in_arena;
    Ranks mapped(hosts, kLong, Wire::kSharedTensors);
    CHECK_EQ(mapped.Reduce(3, -1), int64_t{0});
    CHECK_EQ(mapped.num_located() > 0, has_peers);
    CHECK_EQ(mapped.num_fetched(), 0);
  }
}

// One tensor is nearly all of the list: all ranks of the host sum it up.
TEST(OneLongTensorIsTheWorkOfAll) {
  Ranks ranks({{0, 1, 2}, {3, 4, 5}}, {300, 900000, 70000}, Wire::kCrossMemory);
  CHECK_EQ(ranks.Reduce(2, -1), int64_t{0});
  CHECK_TRUE(ranks.num_stored() > 0);
}

// Blocks of 1 MiB where ranks of a host share memory, else as long as messages may be. Every rank
// says the same.
TEST(BlocksSuitTheWire) {
  World all(Wire::kCopies, 3), host(Wire::kSharedMemory, 2), alone(Wire::kSharedMemory, 1);
  CHECK_EQ(BlockBytes(all.transport(0)), kMessageBytes);
  for (int rank : {0, 1}) {
    CHECK_EQ(BlockBytes(host.transport(rank)), int64_t{1} << 20);
    HostsTransport transport(&all.transport(rank), &host.transport(rank), {0, 1});
    CHECK_EQ(BlockBytes(transport), int64_t{1} << 20);
    CHECK_EQ(BlockBytes(SubsetTransport(&transport, {0, 1})), int64_t{1} << 20);
    if (rank == 0) CHECK_EQ(BlockBytes(SubsetTransport(&transport, {0, 2})), kMessageBytes);
  }
  HostsTransport transport(&all.transport(2), &alone.transport(0), {2});
  CHECK_EQ(BlockBytes(transport), int64_t{1} << 20);
}

// Several blocks and steps of 1 MiB: who is ahead must not write over what the late one still
// reads, in whichever stage that is.
TEST(NobodyOverwritesWhatALateRankReads) {
  const std::vector<int64_t> counts = {260000, 10, 270000, 600000};
  for (const HostRanks& hosts : {HostRanks{{0, 1, 2}, {3}}, HostRanks{{0, 1}, {2, 3}}}) {
    for (int late_rank = 0; late_rank < static_cast<int>(hosts[0].size()); ++late_rank) {
      Scope scope(Describe(hosts) + ", rank " + std::to_string(late_rank) + " is late");
      CHECK_EQ(Ranks(hosts, counts).Reduce(2, late_rank), int64_t{0});
      CHECK_EQ(Ranks(hosts, counts, Wire::kCrossMemory).Reduce(2, late_rank), int64_t{0});
      const InArena in_arena;
      CHECK_EQ(Ranks(hosts, counts, Wire::kSharedTensors).Reduce(2, late_rank), int64_t{0});
    }
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
