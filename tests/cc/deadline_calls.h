// Allreduces with a deadline on ranks whose messages are late, and what must hold of them.
#ifndef ADASUM_TESTS_CC_DEADLINE_CALLS_H_
#define ADASUM_TESTS_CC_DEADLINE_CALLS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cc/late_transport.h"
#include "tests/cc/ranks.h"

namespace adasum {
namespace test {

using Vectors = std::vector<std::vector<double>>;  // of each tensor

constexpr double kAmpleMilliseconds = 60000;
// Several chunks, which begin and end within tensors.
inline const std::vector<int64_t> kCounts = {3, 4000, 0, 2500, 1, 700};

class LateRanks {
 public:
  LateRanks(int size, LateWire::Lateness lateness, double silence_seconds = 60)
      : world_(Wire::kCopies, size, silence_seconds), wire_(std::move(lateness)) {
    for (int rank = 0; rank < size; ++rank) {
      auto late = std::make_unique<LateTransport>(world_.TakeTransport(rank), &wire_);
      transports_.push_back(late.get());
      communicators_.push_back(
          std::make_unique<Communicator>(world_.TakeWaits(rank), std::move(late),
                                         Topology{rank, size, 1, {{0}}, WidestInstructionSet()}));
    }
  }
  int size() const { return static_cast<int>(communicators_.size()); }
  Communicator& operator[](int rank) { return *communicators_[rank]; }
  LateWire& wire() { return wire_; }
  int64_t num_started() const {
    int64_t sum = 0;
    for (const LateTransport* each : transports_) sum += each->num_started;
    return sum;
  }

 private:
  World world_;
  LateWire wire_;
  std::vector<LateTransport*> transports_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

struct Outcome {
  Ending ending;
  Vectors outputs, left_out;
  double share = -1;
};

struct Call {
  std::string reduction = "sum";
  double milliseconds = kAmpleMilliseconds;
  double max_left_out = 1;
};

// In float64.
Outcome Reduce(Communicator& communicator, const Vectors& inputs, const Call& call);
std::vector<Outcome> ReduceOnAll(LateRanks& ranks, const std::vector<Vectors>& inputs,
                                 const Call& call);

// Without zeros, so that what is left out can be told.
std::vector<Vectors> RandomInputs(int size, unsigned seed,
                                  const std::vector<int64_t>& counts = kCounts);

enum class Phase { kParts, kResults };

// That all ranks have the same bits, and the reduction of what is not left out; or, where only
// results can be late, of all, without the chunks that nobody has. Returns how many tensors were
// compared: Adasum's weights are not told where a result that is left out had parts missing.
int Check(const Call& call, const std::vector<Vectors>& inputs,
          const std::vector<Outcome>& outcomes, Phase late = Phase::kParts);

// Which of the messages of a call a rank sends: first parts to owners, then results.
class Phases {
 public:
  explicit Phases(int size, const std::vector<int64_t>& counts = kCounts);
  // Where all messages are sent, in all calls.
  Phase Of(int rank, int64_t number) const {
    return number % num_messages_[rank] < num_parts_[rank] ? Phase::kParts : Phase::kResults;
  }

 private:
  std::vector<int64_t> num_parts_, num_messages_;
};

// Whether a message is one of so many percent, by its number alone: the same in each run.
bool Draw(int from, int64_t number, unsigned percent);

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_DEADLINE_CALLS_H_
