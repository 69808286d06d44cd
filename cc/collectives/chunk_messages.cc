#include "cc/collectives/chunk_messages.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace adasum {
namespace {

// Under way to one peer at a time; or one message, if that is longer. Fewer would have ranks that
// share a core wait for each other's turn after every few messages.
constexpr int64_t kUnderWayBytes = int64_t{512} << 10;
constexpr int kMostUnderWay = 32;

}  // namespace

void LateMessages::Progress() {
  const auto end = std::remove_if(messages_.begin(), messages_.end(), [](const Message& message) {
    return message.transfer->Progress();
  });
  messages_.erase(end, messages_.end());
}

void LateMessages::Await(int64_t last, const WaitControl& waits) {
  Progress();
  while (!messages_.empty() && messages_.front().call <= last) {
    Backoff backoff(waits, "a late chunk", messages_.front().world_rank);
    while (!messages_.front().transfer->Progress()) backoff.Pause();
    Progress();
  }
}

ChunkMessages::ChunkMessages(Transport* transport)
    : transport_(*transport), outgoing_(transport->size()), incoming_(transport->size()) {}

void ChunkMessages::AddSend(const Send& send, std::function<Chunk()> fill) {
  Outgoing message;
  message.send = send;
  message.fill = std::move(fill);
  outgoing_[send.peer].push_back(std::move(message));
}

void ChunkMessages::AddRecv(const Recv& recv, Chunk memory) {
  Incoming message;
  Recv into = recv;
  into.bytes = memory.get();
  message.memory = std::move(memory);
  message.transfer = transport_.Start(into);
  incoming_[recv.peer].push_back(std::move(message));
}

void ChunkMessages::Exchange(Clock::time_point due, const WaitControl& waits) {
  if (ProgressAll()) return;
  std::optional<Backoff> backoff;
  // A wait begins anew with each chunk that has come or gone.
  for (int64_t seen = -1; Clock::now() < due && !ProgressAll(); backoff->Pause()) {
    if (num_done_ != seen) backoff.emplace(waits, "chunks", transport_.WorldRank(FirstMissing()));
    seen = num_done_;
  }
}

bool ChunkMessages::ProgressAll() {
  bool is_done = true;
  for (std::vector<Outgoing>& to_peer : outgoing_) is_done &= ProgressSends(to_peer);
  for (std::vector<Incoming>& from_peer : incoming_) is_done &= ProgressRecvs(from_peer);
  return is_done;
}

bool ChunkMessages::ProgressSends(std::vector<Outgoing>& to_peer) {
  int64_t num_bytes = 0;
  int number = 0;
  for (Outgoing& message : to_peer) {
    if (message.state == State::kDone || message.state == State::kLeftOut) continue;
    if (message.state == State::kWaiting) {
      const bool fits = num_bytes + message.send.num_bytes <= kUnderWayBytes;
      if (number == kMostUnderWay || (number > 0 && !fits)) return false;
      message.memory = std::exchange(message.fill, nullptr)();
      message.send.bytes = message.memory.get();
      message.transfer = transport_.Start(message.send);
      message.state = State::kUnderWay;
    }
    if (message.transfer->Progress()) {
      message.transfer.reset();
      message.memory.reset();
      message.state = State::kDone;
      ++num_done_;
    } else {
      num_bytes += message.send.num_bytes;
      ++number;
    }
  }
  return number == 0;
}

bool ChunkMessages::ProgressRecvs(std::vector<Incoming>& from_peer) {
  bool is_done = true;
  for (Incoming& message : from_peer) {
    if (message.state != State::kUnderWay) continue;
    if (message.transfer->Progress()) {
      message.transfer.reset();
      message.state = State::kDone;
      ++num_done_;
    } else {
      is_done = false;
    }
  }
  return is_done;
}

int ChunkMessages::FirstMissing() const {
  for (size_t peer = 0; peer < incoming_.size(); ++peer) {
    for (const Incoming& message : incoming_[peer]) {
      if (message.state == State::kUnderWay) return static_cast<int>(peer);
    }
  }
  for (size_t peer = 0; peer < outgoing_.size(); ++peer) {
    for (const Outgoing& message : outgoing_[peer]) {
      const bool is_missing = message.state == State::kWaiting || message.transfer != nullptr;
      if (is_missing) return static_cast<int>(peer);
    }
  }
  return transport_.rank();
}

void ChunkMessages::LeaveOutSend(int peer, int64_t index) {
  Outgoing& message = outgoing_[peer][index];
  if (message.state != State::kDone) message.state = State::kLeftOut;
}

void ChunkMessages::LeaveOutRecv(int peer, int64_t index, bool was_sent, int64_t call,
                                 LateMessages* late) {
  Incoming& message = incoming_[peer][index];
  if (message.state != State::kUnderWay) return;
  message.state = State::kLeftOut;
  if (was_sent) {
    late->Keep(call, transport_.WorldRank(peer), std::move(message.transfer),
               std::move(message.memory));
  }
  message.transfer.reset();
}

void ChunkMessages::KeepLate(int64_t call, LateMessages* late) {
  for (size_t peer = 0; peer < outgoing_.size(); ++peer) {
    for (Outgoing& message : outgoing_[peer]) {
      if (!message.transfer) continue;
      late->Keep(call, transport_.WorldRank(static_cast<int>(peer)), std::move(message.transfer),
                 std::move(message.memory));
    }
  }
}

}  // namespace adasum
