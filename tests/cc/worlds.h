// Several ranks in this process, one thread each, over each transport that one process can host.
#ifndef ADASUM_TESTS_CC_WORLDS_H_
#define ADASUM_TESTS_CC_WORLDS_H_

#include <functional>
#include <memory>
#include <vector>

#include "cc/core/backoff.h"
#include "cc/core/transport.h"

namespace adasum {
namespace test {

enum class Wire {
  kThreads,        // reads peers' memory: it must outlive the collective on all ranks
  kCopies,         // the same, with a copy of every message, as a network makes it
  kSharedMemory,   // as between processes of one host
  kSharedTensors,  // the same, and ranks reach each other's tensors in the arena
  kCrossMemory,    // the same, and copy from and to tensors elsewhere
  kPosted,   // copies whose exchanges are posted ahead: a breach of Post's contract is an error
  kNetwork,  // the same, and as between hosts of one rank: all algorithms for them
};
constexpr Wire kWires[] = {Wire::kThreads, Wire::kCopies, Wire::kSharedMemory, Wire::kPosted,
                           Wire::kNetwork};
const char* WireName(Wire wire);

// The ranks' ends of one wire. What they wait by stays where it is for the life of the world; ranks
// may hand their transport and waits to a communicator.
class World {
 public:
  World(Wire wire, int size, double silence_seconds = 30, double mismatch_seconds = 30);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int size() const { return static_cast<int>(transports_.size()); }
  Transport& transport(int rank) { return *transports_[rank]; }
  std::unique_ptr<Transport> TakeTransport(int rank) { return std::move(transports_[rank]); }
  std::unique_ptr<WaitControl> TakeWaits(int rank) { return std::move(waits_[rank]); }

 private:
  class Hub;
  void ConnectSharedMemory(Wire wire);

  // Before the transports, which refer to them.
  std::unique_ptr<Hub> hub_;
  std::vector<std::unique_ptr<WaitControl>> waits_;
  std::vector<std::unique_ptr<Transport>> transports_;
};

// Runs body(rank) for each rank at the same time; returns when all have.
void ForEachRank(int size, const std::function<void(int)>& body);

// Whether a collective gives up after a wait for a silent peer; other errors are thrown on.
bool TimesOut(const std::function<void()>& collective);

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_WORLDS_H_
