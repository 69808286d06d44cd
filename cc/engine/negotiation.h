// How ranks agree, peer to peer and before the first byte of data, on what to do next.
//
// Each rank has a list of pending requests. One round of ceil(log2 P) small messages tells
// everyone whether all ranks want the same thing first; it does not wait for any coordinator's
// cycle. Only if they differ do the ranks show each other their whole lists and decide, all from
// the same table and hence all alike: run a request that everybody has, fail one that everybody
// has with unlike tensors, or look again after a moment.
#ifndef ADASUM_ENGINE_NEGOTIATION_H_
#define ADASUM_ENGINE_NEGOTIATION_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cc/core/backoff.h"
#include "cc/core/transport.h"

namespace adasum {

// What ranks compare: the name says which requests belong together, the signature (operation,
// dtype, shapes, ...) what must be equal.
struct RequestKey {
  // An empty name is made from the signature.
  RequestKey(std::string name, std::string signature);

  std::string name;
  std::string signature;
  // Of both; 128 bits, so that two unlike keys never look equal.
  std::array<uint64_t, 2> digest;
};

struct Decision {
  // kShutdown: a rank has left, and all others know it. No request follows.
  enum class Kind { kRun, kFail, kLookAgain, kShutdown };
  Kind kind;
  size_t index = 0;     // into this rank's pending list; for kRun and kFail
  std::string message;  // for kFail: who passed what; for kShutdown: who left
};

class Negotiation {
 public:
  // `waits` must outlive this.
  explicit Negotiation(const WaitControl& waits) : waits_(waits) {}

  // One round; collective. `first` is the oldest pending request of this rank, `pending` lists
  // all of them, oldest first; it is called only if the ranks' first ones differ.
  Decision Decide(Transport& transport, const RequestKey& first,
                  const std::function<std::vector<RequestKey>()>& pending);

 private:
  Decision Compare(Transport& transport, const std::vector<RequestKey>& pending);
  bool HasExpired();

  const WaitControl& waits_;
  // Since when the ranks have had no request in common; the epoch while they have.
  std::chrono::steady_clock::time_point differing_since_{};
};

// How a rank leaves: the whole job, or this communicator only.
enum class ShutdownReason { kEnded, kClosed };

// Sends this rank's last messages on `transport`, between two rounds: it takes part in no further
// one. Ranks that wait for it, now or later, receive the notice in their round, and end.
//
// What a rank sends in its last round, or in place of one, is its last message to each peer: peers
// know what is still to come. Returns or throws when the messages are on their way; waits for no
// answer.
void SendShutdownNotice(Transport& transport, ShutdownReason reason);

// As SendShutdownNotice, after a round that decided kShutdown: this rank has sent and received its
// last messages.
void ConcludeAfterShutdown(Transport& transport);

}  // namespace adasum

#endif  // ADASUM_ENGINE_NEGOTIATION_H_
