// Ranks as processes of their own, without a launcher and without MPI: memory that only another
// process may open, and processes that end early.
#ifndef ADASUM_TESTS_CC_PROCESSES_H_
#define ADASUM_TESTS_CC_PROCESSES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cc/transport/shm_transport.h"

namespace adasum {
namespace test {

constexpr int kMostProcesses = 8;

// What the processes of one world and their parent share.
struct Board {
  struct OfRank {
    char address[256];
    std::atomic<uint64_t> noted;
  } of_rank[kMostProcesses];
  std::atomic<int> num_connected;
};

// Forks `size` processes, which run body(rank, board) and end; a check that fails in one, and a
// process that ends otherwise or takes longer than the limit, fail the test. Nothing that can't be
// forked may be in use: threads, CUDA.
void ForEachProcess(int size, int limit_seconds,
                    const std::function<void(int rank, Board* board)>& body);

// In a process: this rank's end of shared memory between all of them.
std::unique_ptr<ShmTransport> Connect(int rank, int size, Board* board, const WaitControl& waits);

// In a process, for what all must have in common: fails in the parent unless all note the same.
void NoteEqual(int rank, Board* board, uint64_t value);

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_PROCESSES_H_
