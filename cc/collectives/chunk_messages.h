// The messages of chunks that one rank sends and receives in a phase of an exchange, and those that
// are late.
#ifndef ADASUM_COLLECTIVES_CHUNK_MESSAGES_H_
#define ADASUM_COLLECTIVES_CHUNK_MESSAGES_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "cc/collectives/chunk_memory.h"
#include "cc/core/backoff.h"
#include "cc/core/transport.h"

namespace adasum {

// Messages under way that nobody waits for, and their memory.
class LateMessages {
 public:
  void Keep(int64_t call, int world_rank, std::unique_ptr<Transfer> transfer, Chunk memory) {
    messages_.push_back({call, world_rank, std::move(memory), std::move(transfer)});
  }
  // Lets go of what has arrived meanwhile; never waits.
  void Progress();
  // Waits for those of calls up to `last`.
  void Await(int64_t last, const WaitControl& waits);
  bool empty() const { return messages_.empty(); }

 private:
  struct Message {
    int64_t call;
    int world_rank;
    Chunk memory;
    std::unique_ptr<Transfer> transfer;
  };
  std::deque<Message> messages_;  // in the order of their calls
};

// With each peer at most one message each way has a given index. Each peer is sent its messages in
// the order of their indices, few at a time: what lies in the queues of a network can't be held
// back any more, and delays what ranks tell each other.
class ChunkMessages {
 public:
  using Clock = std::chrono::steady_clock;

  // `transport` must outlive this.
  explicit ChunkMessages(Transport* transport);
  ChunkMessages(const ChunkMessages&) = delete;
  ChunkMessages& operator=(const ChunkMessages&) = delete;

  // The next message to send.peer, whose bytes fill() returns when its turn comes.
  void AddSend(const Send& send, std::function<Chunk()> fill);
  // The next message from recv.peer; it is received from now on, into `memory`.
  void AddRecv(const Recv& recv, Chunk memory);

  // Goes on until all that is not left out has come, and is with those who receive it, or until
  // `due`. Before that a rank must not turn to other things than MPI: it may have to push the rest.
  void Exchange(Clock::time_point due, const WaitControl& waits);

  // Between two calls of Exchange these stay as they are.
  bool HasBegun(int peer, int64_t index) const {
    return outgoing_[peer][index].state != State::kWaiting;
  }
  bool HasArrived(int peer, int64_t index) const {
    return incoming_[peer][index].state == State::kDone;
  }
  // What has arrived.
  const Chunk& Received(int peer, int64_t index) const { return incoming_[peer][index].memory; }

  // Is not sent if it has not begun; nobody waits for it.
  void LeaveOutSend(int peer, int64_t index);
  // Nobody waits for it; `was_sent`: whether it may still arrive.
  void LeaveOutRecv(int peer, int64_t index, bool was_sent, int64_t call, LateMessages* late);
  // Hands over what is still under way of what was sent and left out.
  void KeepLate(int64_t call, LateMessages* late);

 private:
  enum class State { kWaiting, kUnderWay, kDone, kLeftOut };
  struct Outgoing {
    Send send;
    std::function<Chunk()> fill;
    State state = State::kWaiting;  // left out: if there is a transfer, it is under way
    Chunk memory;
    std::unique_ptr<Transfer> transfer;
  };
  struct Incoming {
    Chunk memory;
    std::unique_ptr<Transfer> transfer;
    State state = State::kUnderWay;
  };

  bool ProgressAll();
  bool ProgressSends(std::vector<Outgoing>& to_peer);
  bool ProgressRecvs(std::vector<Incoming>& from_peer);
  // Whom this rank waits for.
  int FirstMissing() const;

  Transport& transport_;
  // Of each peer, by index.
  std::vector<std::vector<Outgoing>> outgoing_;
  std::vector<std::vector<Incoming>> incoming_;
  int64_t num_done_ = 0;  // messages of both kinds
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_CHUNK_MESSAGES_H_
