// How ranks agree, peer to peer and before the first byte of data, on what to do next.
//
// Each rank has a list of pending requests. One round of ceil(log2 P) small messages tells
// everyone whether all ranks want the same thing first; it does not wait for any coordinator's
// cycle. Only if they differ do the ranks show each other their whole lists and decide, all from
// the same table and hence all alike: run a request that everybody has, fail one that everybody
// has with unlike tensors, or look again after a moment.
#ifndef ADASUM_ENGINE_AGREEMENT_H_
#define ADASUM_ENGINE_AGREEMENT_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cc/core/patience.h"
#include "cc/core/transport.h"

namespace adasum {

// What ranks compare: the name says which requests belong together, the signature (operation,
// dtype, shapes, ...) what must be equal.
struct Intent {
  // An empty name is made from the signature.
  Intent(std::string name, std::string signature);

  std::string name;
  std::string signature;
  // Of both; 128 bits, so that two unlike intents never look equal.
  std::array<uint64_t, 2> digest;
};

struct Decision {
  // kParted: a rank has left, and all others know it; nothing more can follow.
  enum class Kind { kRun, kFail, kLookAgain, kParted };
  Kind kind;
  size_t index = 0;     // into this rank's pending list; for kRun and kFail
  std::string message;  // for kFail: who passed what; for kParted: who left
};

class Agreement {
 public:
  // `limits` must outlive this.
  explicit Agreement(const WaitLimits& limits) : limits_(limits) {}

  // One round; collective. `first` is the oldest pending request of this rank, `pending` lists
  // all of them, oldest first; it is called only if the ranks' first ones differ.
  Decision Decide(Transport& transport, const Intent& first,
                  const std::function<std::vector<Intent>()>& pending);

 private:
  Decision Compare(Transport& transport, const std::vector<Intent>& pending);
  bool HasExpired();

  const WaitLimits& limits_;
  // Since when the ranks have had no request in common; the epoch while they have.
  std::chrono::steady_clock::time_point differing_since_{};
};

// How a rank leaves: the whole job, or this communicator only.
enum class Departure { kEnded, kClosed };

// This rank's last word on `transport`, between two rounds: it takes part in no further one. Ranks
// that wait for it, or come to wait for it later, hear of it in their round and end it.
//
// What a rank sends in the last round, or in place of it, is its last message to each peer, and
// nothing of it is missing then. Returns or throws when it is on its way; waits for nobody's
// answer.
void SayGoodbye(Transport& transport, Departure departure);

// As SayGoodbye, after a round that was parted: this rank has sent and received its last.
void ConcludeParted(Transport& transport);

}  // namespace adasum

#endif  // ADASUM_ENGINE_AGREEMENT_H_
