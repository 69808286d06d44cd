// Exchanges of every leaf with every other one.
#ifndef ADASUM_ALGORITHMS_FOR_EACH_PEER_H_
#define ADASUM_ALGORITHMS_FOR_EACH_PEER_H_

#include "cc/core/transport.h"

namespace adasum {

// Calls visit(peer) for all other leaves, those behind this one first: not all at the same.
template <typename Visit>
void ForEachPeer(const Transport& transport, Visit visit) {
  const int rank = transport.rank(), size = transport.size();
  for (int shift = 1; shift < size; ++shift) visit((rank + shift) % size);
}

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_FOR_EACH_PEER_H_
