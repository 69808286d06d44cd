// How ranks agree, peer to peer and before the first byte of data, on what to do next.
//
// Each rank has a list of pending requests. One round of ceil(log2 P) small messages, or of one to
// each other rank where they are few and share memory, tells everyone whether all ranks want the
// same thing first; it does not wait for any coordinator's cycle. In a message to all there is room
// for what a request works on, if that is little: then nothing more has to be sent. Only if they
// differ do the ranks show each other their whole lists and decide, all from the same table and
// hence all alike: run a request that everybody has, fail one that everybody has with unlike
// tensors, or look again after a moment.
#ifndef ADASUM_ENGINE_NEGOTIATION_H_
#define ADASUM_ENGINE_NEGOTIATION_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cc/core/backoff.h"
#include "cc/core/counted_time.h"
#include "cc/core/transport.h"

namespace adasum {

// What ranks compare: the name says which requests belong together, the signature (operation,
// dtype, shapes, ...) what must be equal.
// Copies share their texts.
class RequestKey {
 public:
  using Digest = std::array<uint64_t, 2>;

  // An empty name is made from the signature.
  RequestKey(std::string name, std::string signature);

  const std::string& name() const { return texts_->name; }
  const std::string& signature() const { return texts_->signature; }
  // Of both; 128 bits, so that two unlike keys never look equal.
  const Digest& digest() const { return texts_->digest; }

 private:
  struct Texts {
    std::string name;
    std::string signature;
    Digest digest;
  };
  std::shared_ptr<const Texts> texts_;
};

// What a request has its rank send with the key, where ranks send to all at once: kShortBytes at
// most.
struct Enclosure {
  // Of all requests of the same key; 0 if there is nothing.
  int64_t num_bytes = 0;
  std::function<void(char* to)> write = {};
};

// What all ranks have enclosed. The bytes are the request's to change while it runs.
struct EnclosedByAll {
  char* first = nullptr;  // rank 0's; null if ranks have enclosed nothing
  int64_t stride = 0;
  char* Of(int rank) const { return first + rank * stride; }
};

struct Decision {
  // kShutdown: a rank has left, and all others know it. No request follows.
  enum class Kind { kRun, kFail, kLookAgain, kShutdown };
  Kind kind;
  size_t index = 0;             // into this rank's pending list; for kRun and kFail
  std::string message;          // for kFail: who passed what; for kShutdown: who left
  EnclosedByAll enclosed = {};  // for kRun; until the next round
};

class Negotiation {
 public:
  // `waits` must outlive this.
  explicit Negotiation(const WaitControl& waits) : waits_(waits) {}

  // One round; collective. `first` is the oldest pending request of this rank, and `enclosure` its;
  // `pending` lists all of them, oldest first; it is called only if the ranks' first ones differ.
  Decision Decide(Transport& transport, const RequestKey& first, const Enclosure& enclosure,
                  const std::function<std::vector<RequestKey>()>& pending);

 private:
  using Digest = RequestKey::Digest;
  struct Extremes;

  // The least and the greatest digest of all ranks. They are equal if and only if all digests are.
  static Extremes ExtremesByRounds(Transport& transport, const Digest& mine);
  Extremes ExtremesByMessagesToAll(Transport& transport, const Digest& mine,
                                   const Enclosure& enclosure);
  Decision Compare(Transport& transport, const std::vector<RequestKey>& pending);
  bool HasExpired();

  const WaitControl& waits_;
  // How long the ranks have had no request in common; none while they have.
  std::optional<CountedTime> differing_;
  // The messages of all ranks, their own too, and how long they are.
  std::vector<char> messages_;
  std::vector<int64_t> message_bytes_;
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
