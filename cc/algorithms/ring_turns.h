// Every leaf to every other one over a network, chunk by chunk, begun ahead where the wire takes
// that.
#ifndef ADASUM_ALGORITHMS_RING_TURNS_H_
#define ADASUM_ALGORITHMS_RING_TURNS_H_

#include <cstdint>

#include "cc/core/transport.h"

namespace adasum {

// An exchange of chunk `chunk`: to one peer, from another. In round d all leaves send to the d-th
// behind them, so that no leaf waits for one that waits for it.
struct RingTurn {
  int64_t chunk;
  int to, from;
  bool is_last;  // of its chunk
};

// Makes all turns of so many chunks; use(turn) follows each, while later ones are on their way.
// send(turn) and recv(turn) are called when a turn is posted and again when it is made.
template <typename SendOf, typename RecvOf, typename Use>
void TakeRingTurns(Transport& transport, int64_t num_chunks, SendOf send, RecvOf recv, Use use) {
  const int rank = transport.rank(), size = transport.size();
  const int64_t num_turns = num_chunks * (size - 1);
  const auto turn_of = [&](int64_t i) {
    const int shift = static_cast<int>(i % (size - 1)) + 1;
    return RingTurn{i / (size - 1), (rank + shift) % size, (rank + size - shift) % size,
                    shift == size - 1};
  };
  const int64_t ahead = transport.MostPosted((rank + 1) % size);
  for (int64_t i = -ahead; i < num_turns; ++i) {
    if (i + ahead < num_turns) {
      const RingTurn next = turn_of(i + ahead);
      transport.Post(send(next), recv(next));
    }
    if (i < 0) continue;
    const RingTurn turn = turn_of(i);
    transport.Exchange(send(turn), recv(turn));
    use(turn);
  }
}

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_RING_TURNS_H_
