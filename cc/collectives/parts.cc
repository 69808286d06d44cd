#include "cc/collectives/parts.h"

#include <algorithm>

#include "cc/collectives/shown_bytes.h"
#include "cc/core/bytes.h"
#include "cc/core/copy_bytes.h"

namespace adasum {
namespace {

class Exchange {
 public:
  explicit Exchange(Transport* transport) : transport_(*transport), shown_(transport) {}

  void Swap(int to, Part sent, int from, PartOfResult received) {
    const Part read_by_peer = IsRead(to, sent.num_bytes) ? sent : Part{nullptr, 0};
    const PartOfResult read =
        IsRead(from, received.num_bytes) ? received : PartOfResult{nullptr, 0};
    // The same order on all ranks, so that none waits for one that waits for it.
    shown_.Exchange({{to}, read_by_peer.bytes, read_by_peer.num_bytes},
                    {from, read.bytes, read.num_bytes});
    SwapByMessage(to, read_by_peer.num_bytes > 0 ? Part{nullptr, 0} : sent, from,
                  read.num_bytes > 0 ? PartOfResult{nullptr, 0} : received);
  }

 private:
  // Whether a part is read in the sender's memory: not if it fits into a message of few.
  bool IsRead(int peer, int64_t num_bytes) const {
    return num_bytes > kOwnBytes && SharesMemory(transport_, peer);
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
  ShownBytes shown_;
};

}  // namespace

void ExchangeParts(Transport& transport, const std::function<Part(int)>& give,
                   const std::function<PartOfResult(int)>& take) {
  const int rank = transport.rank(), size = transport.size();
  const Part own = give(rank);
  if (own.num_bytes > 0) CopyBytes(take(rank).bytes, own.bytes, own.num_bytes);
  Exchange exchange(&transport);
  // Each with another peer at a time, so that no rank is everybody's next.
  for (int distance = 1; distance < size; ++distance) {
    const int to = (rank + distance) % size, from = (rank - distance + size) % size;
    exchange.Swap(to, give(to), from, take(from));
  }
}

}  // namespace adasum
