#include "cc/collectives/parts.h"

#include <algorithm>
#include <cstring>

#include "cc/core/bytes.h"

namespace adasum {
namespace {

// Putting piece i waits until the peer has taken the address of piece i - 1, for which it finished
// piece i - 2: when piece i is written, piece i - 3 has been read.
constexpr int64_t kSlots = 3;

// The pieces of a part that peers read in this rank's memory.
int64_t NumPieces(int64_t num_bytes, int64_t piece_bytes) {
  return (num_bytes + piece_bytes - 1) / piece_bytes;
}

class Exchange {
 public:
  explicit Exchange(Transport* transport) : transport_(*transport) {}

  void Swap(int to, Part sent, int from, PartOfResult received) {
    const Part read_by_peer = IsRead(to, sent.num_bytes) ? sent : Part{nullptr, 0};
    const PartOfResult read =
        IsRead(from, received.num_bytes) ? received : PartOfResult{nullptr, 0};
    // The same order on all ranks, so that none waits for one that waits for it.
    SwapByAddress(to, read_by_peer, from, read);
    SwapByMessage(to, read_by_peer.num_bytes > 0 ? Part{nullptr, 0} : sent, from,
                  read.num_bytes > 0 ? PartOfResult{nullptr, 0} : received);
  }

 private:
  // Whether a part is read in the sender's memory: not if it fits into a message of few.
  bool IsRead(int peer, int64_t num_bytes) const {
    return num_bytes > kOwnBytes && SharesMemory(transport_, peer);
  }

  void SwapByAddress(int to, Part sent, int from, PartOfResult received) {
    if (sent.num_bytes == 0 && received.num_bytes == 0) return;
    const int64_t sent_pieces = NumPieces(sent.num_bytes, transport_.ChunkBytes(to));
    const int64_t received_pieces = NumPieces(received.num_bytes, transport_.ChunkBytes(from));
    for (int64_t i = 0; i < std::max(sent_pieces, received_pieces); ++i) {
      if (i < sent_pieces) Put(to, sent, i);
      if (i < received_pieces) Take(from, received, i);
    }
    // The slots are free again when the peer says that it has read the last ones.
    char mine = 0, theirs = 0;
    transport_.SendRecv({from, &mine, received.num_bytes > 0}, {to, &theirs, sent.num_bytes > 0});
  }

  void Put(int to, Part sent, int64_t i) {
    const int64_t piece_bytes = transport_.ChunkBytes(to), begin = i * piece_bytes;
    const int64_t num_bytes = std::min(piece_bytes, sent.num_bytes - begin);
    if (slots_ == nullptr) slots_ = transport_.Workspace(kSlots * piece_bytes);
    char* const slot = At(slots_, i % kSlots * piece_bytes);
    std::memcpy(slot, At(sent.bytes, begin), num_bytes);
    transport_.Exchange({to, slot, num_bytes}, {to, nullptr, 0});
  }

  void Take(int from, PartOfResult received, int64_t i) {
    const int64_t piece_bytes = transport_.ChunkBytes(from), begin = i * piece_bytes;
    const int64_t num_bytes = std::min(piece_bytes, received.num_bytes - begin);
    const void* theirs = transport_.Exchange({from, nullptr, 0}, {from, nullptr, num_bytes});
    std::memcpy(At(received.bytes, begin), theirs, num_bytes);
  }

  // In messages of at most kMessageBytes: a wait has a limit, however long a part is.
  void SwapByMessage(int to, Part sent, int from, PartOfResult received) {
    for (int64_t done = 0; done < std::max(sent.num_bytes, received.num_bytes);
         done += kMessageBytes) {
      const int64_t sent_before = std::min(done, sent.num_bytes);
      const int64_t received_before = std::min(done, received.num_bytes);
      transport_.SendRecv(
          {to, At(sent.bytes, sent_before), std::min(sent.num_bytes - sent_before, kMessageBytes)},
          {from, At(received.bytes, received_before),
           std::min(received.num_bytes - received_before, kMessageBytes)});
    }
  }

  Transport& transport_;
  void* slots_ = nullptr;  // a ring of them in the workspace, once a part needs it
};

}  // namespace

void ExchangeParts(Transport& transport, const std::function<Part(int)>& give,
                   const std::function<PartOfResult(int)>& take) {
  const int rank = transport.rank(), size = transport.size();
  const Part own = give(rank);
  if (own.num_bytes > 0) std::memcpy(take(rank).bytes, own.bytes, own.num_bytes);
  Exchange exchange(&transport);
  // Each with another peer at a time, so that no rank is everybody's next.
  for (int distance = 1; distance < size; ++distance) {
    const int to = (rank + distance) % size, from = (rank - distance + size) % size;
    exchange.Swap(to, give(to), from, take(from));
  }
}

}  // namespace adasum
