// Communicators of several ranks in one process, and calls that wait for their requests.
#ifndef ADASUM_TESTS_CC_RANKS_H_
#define ADASUM_TESTS_CC_RANKS_H_

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cc/collectives/allreduce.h"
#include "cc/engine/communicator.h"
#include "tests/cc/worlds.h"

namespace adasum {
namespace test {

// One communicator for each rank of a world.
class Ranks {
 public:
  Ranks(Wire wire, int size, double silence_seconds = 30, double mismatch_seconds = 30)
      : world_(wire, size, silence_seconds, mismatch_seconds) {
    for (int rank = 0; rank < size; ++rank) {
      communicators_.push_back(
          std::make_unique<Communicator>(world_.TakeWaits(rank), world_.TakeTransport(rank),
                                         Topology{rank, size, 1, {{0}}, WidestInstructionSet()}));
    }
  }

  int size() const { return static_cast<int>(communicators_.size()); }
  Communicator& operator[](int rank) { return *communicators_[rank]; }

 private:
  World world_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

// Calls body(wire, size) for each wire that processes have, as a Scope of its own. Not kThreads: a
// result that a peer may still read belongs to the caller once the request is done.
void ForEachWorld(const std::vector<int>& sizes, const std::function<void(Wire, int)>& body);

// How a request ended: nothing for success.
using Ending = std::optional<Error>;

// A request under way; counts how often it was said to be done.
class Pending {
 public:
  Done done();
  // Waits, and checks that it is done for the first time.
  Ending Await();

 private:
  struct State {
    std::promise<Ending> promise;
    std::atomic<int> num_done{0};
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// As TensorFlow's op does: what is refused at once comes through `done`, too.
void EnqueueAllreduce(Communicator& communicator, AllreduceTensors tensors, Done done);

// A float64 vector that is reduced as a request.
class VectorRequest {
 public:
  VectorRequest(Communicator& communicator, const std::string& name, std::vector<double> values,
                const std::string& reduction = "sum", DType dtype = DType::kFloat64);
  VectorRequest(const VectorRequest&) = delete;
  VectorRequest& operator=(const VectorRequest&) = delete;

  Ending Await() { return pending_.Await(); }
  const std::vector<double>& result() const { return output_; }

 private:
  std::vector<double> input_;
  std::vector<double> output_;
  Pending pending_;
};

// All ranks sum a vector; what a usable communicator can do.
void CheckUsable(Ranks& ranks, const std::string& name);

// "" for success, else the code and the message.
std::string Describe(const Ending& ending);
bool Is(const Ending& ending, ErrorCode code);
bool Contains(const std::string& text, const std::string& part);

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_RANKS_H_
