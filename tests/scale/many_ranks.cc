// Real MPI processes, far more than cores: the bootstrap, the engine with its communication thread
// and the allreduce as training has them, without Python and TensorFlow. many_ranks_test starts it.
//
//   adasumrun -np 64 many_ranks LIMIT_SECONDS

#include <malloc.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cc/bootstrap/closer.h"
#include "cc/bootstrap/group.h"
#include "cc/bootstrap/start_limit.h"
#include "tests/cc/check.h"
#include "tests/cc/ranks.h"
#include "tests/scale/exchange.h"
#include "tests/scale/resident.h"

namespace adasum {
namespace test {
namespace {

constexpr int kNumHosts = 4;
constexpr int64_t kKib = 1024;

std::shared_ptr<Group> everyone;
int64_t resident_at_start;

int WorldRank() { return everyone->communicator().rank(); }
int WorldSize() { return everyone->communicator().size(); }

template <typename Number>
Number OfAll(Number mine, MPI_Op op) {
  static_assert(sizeof(Number) == 8, "as the type told to MPI");
  Number result = 0;
  MPI_Allreduce(&mine, &result, 1, std::is_signed<Number>::value ? MPI_INT64_T : MPI_UINT64_T, op,
                MPI_COMM_WORLD);
  return result;
}

const std::vector<int64_t> kList = {1000, 15, 1, 0, 333, 70000, (1 << 17) + 1};

// What every world is asked for.
std::vector<Exchange> AdasumOfAllSizes(const std::string& local_reduction) {
  std::vector<Exchange> exchanges;
  for (const auto& counts : {std::vector<int64_t>{1}, {1000}, {(1 << 18) + 3}, kList}) {
    exchanges.push_back({"adasum", local_reduction, DType::kFloat32, counts});
  }
  exchanges.push_back({"adasum", local_reduction, DType::kBFloat16, kList});
  return exchanges;
}

std::vector<Exchange> OtherReductionsAndDTypes() {
  std::vector<Exchange> exchanges;
  for (const char* reduction : {"mean", "sum"}) {
    for (const auto& counts : {std::vector<int64_t>{1}, {1000}, kList}) {
      exchanges.push_back({reduction, "", DType::kFloat32, counts});
    }
  }
  exchanges.push_back({"sum", "", DType::kFloat32, {(1 << 18) + 3}});
  exchanges.push_back({"adasum", "", DType::kFloat16, kList});
  exchanges.push_back({"adasum", "", DType::kFloat64, kList});
  exchanges.push_back({"mean", "", DType::kFloat16, kList});
  exchanges.push_back({"sum", "", DType::kInt32, kList});
  return exchanges;
}

// Bits are compared on all ranks; the tree, which takes the memory of all vectors, is one's.
void CheckExchange(Communicator& communicator, const Exchange& exchange, int referee) {
  Part part(exchange, communicator.rank());
  Pending pending;  // on the communication thread
  EnqueueAllreduce(communicator, part.Tensors(), pending.done());
  CHECK_EQ(Describe(pending.Await()), "");
  const uint64_t digest = part.Digest();
  CHECK_EQ(OfAll(digest, MPI_MIN), OfAll(digest, MPI_MAX));
  if (referee == communicator.rank()) {
    CheckResults(exchange, communicator.topology().hosts, part);
  }
}

// Every rank queues the same requests, and begins with another one.
void CheckAnyOrder(Communicator& communicator) {
  constexpr int kNumRequests = 6;
  std::vector<std::unique_ptr<VectorRequest>> requests(kNumRequests);
  for (int i = 0; i < kNumRequests; ++i) {
    const int number = (communicator.rank() + i) % kNumRequests;
    requests[number] = std::make_unique<VectorRequest>(
        communicator, "number " + std::to_string(number), std::vector<double>(100, number + 1.0));
  }
  for (int number = 0; number < kNumRequests; ++number) {
    CHECK_EQ(Describe(requests[number]->Await()), "");
    const std::vector<double> expected(100, communicator.size() * (number + 1.0));
    CHECK_TRUE(requests[number]->result() == expected);
  }
}

void CheckExchanges(Communicator& communicator, const std::vector<Exchange>& exchanges) {
  int number = 0;
  for (const Exchange& exchange : exchanges) {
    CheckExchange(communicator, exchange, number++ % communicator.size());
  }
}

// After what was closed before is gone.
int64_t Resident() {
  AwaitClosed();
  malloc_trim(0);
  return ResidentBytes();
}

// Of all that a communicator carried out it keeps buffers for the longest request, which may be
// split between what it sends, what it receives and shared memory; and for each rank the box of its
// messages, of 16 KiB, and what MPI and the system note of it.
void CheckMemory(const char* world, int64_t resident_before) {
  constexpr int64_t kPerRank = 24 * kKib, kBuffers = 3;
  int64_t longest = 0;
  for (const Exchange& each : OtherReductionsAndDTypes()) {
    longest = std::max(longest, each.num_bytes());
  }
  const int64_t limit = kPerRank * WorldSize() + kBuffers * longest;
  const int64_t kept = Resident() - resident_before;
  const int64_t most_kept = OfAll(kept, MPI_MAX);
  CHECK_AT_MOST(static_cast<double>(kept), static_cast<double>(limit));
  if (WorldRank() > 0) return;
  std::printf("%d ranks, %s: a rank keeps at most %lld KiB of %lld\n", WorldSize(), world,
              static_cast<long long>(most_kept / kKib), static_cast<long long>(limit / kKib));
}

TEST(OneHost) {
  CheckExchanges(everyone->communicator(), AdasumOfAllSizes(""));
  CheckExchanges(everyone->communicator(), OtherReductionsAndDTypes());
  CheckAnyOrder(everyone->communicator());
  CheckMemory("shared memory", resident_at_start);
}

TEST(MpiAlone) {
  const int64_t before = Resident();
  const auto group = everyone->Split(0, WorldRank(), "mpi", {{"shared_memory", "0"}});
  CheckExchanges(group->communicator(), AdasumOfAllSizes(""));
  CheckAnyOrder(group->communicator());
  CheckMemory("MPI alone", before);
}

TEST(SeveralHosts) {
  const int64_t before = Resident();
  const int host = WorldRank() * kNumHosts / WorldSize();
  setenv("TF_ADASUM_HOST", std::to_string(host).c_str(), 1);
  const auto group = everyone->Split(0, WorldRank(), "hosts");
  CHECK_EQ(group->communicator().topology().hosts.size(), size_t{kNumHosts});
  for (const char* inside : {"", "sum", "mean"}) {
    CheckExchanges(group->communicator(), AdasumOfAllSizes(inside));
  }
  CheckMemory("4 hosts", before);
}

int Run(int limit_seconds) {
  alarm(limit_seconds);  // also for MPI's own waits
  setenv("TF_ADASUM_TIMEOUT_SECONDS", std::to_string(limit_seconds).c_str(), 0);
  mallopt(M_MMAP_THRESHOLD, 64 << 10);  // what is freed goes back to the system
  {
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    StartLimit limit(rank == nullptr ? "?" : rank);
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    MPI_Barrier(MPI_COMM_WORLD);
    resident_at_start = ResidentBytes();
    everyone = MakeMpiGroup(MPI_Comm_c2f(MPI_COMM_WORLD));
  }
  unsetenv("XML_OUTPUT_FILE");  // that of the test which starts this on many ranks
  const int result = RunAll();
  everyone.reset();
  AwaitClosed();
  EndMpi();
  return result;
}

}  // namespace
}  // namespace test
}  // namespace adasum

int main(int argc, char** argv) {
  if (argc != 2 || std::atoi(argv[1]) <= 0) {
    std::fprintf(stderr, "Usage: many_ranks LIMIT_SECONDS\n");
    return 2;
  }
  return adasum::test::Run(std::atoi(argv[1]));
}
