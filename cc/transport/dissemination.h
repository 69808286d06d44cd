// The rounds of a dissemination (Hensgen, Finkel and Manber, 1988): after round k every rank has
// heard, directly or through others, from 2^(k+1) ranks.
#ifndef ADASUM_TRANSPORT_DISSEMINATION_H_
#define ADASUM_TRANSPORT_DISSEMINATION_H_

#include "cc/core/transport.h"

namespace adasum {

// Calls round(to, from) for each round: the ranks to send to and to receive from.
template <typename Round>
void ForEachDisseminationRound(const Transport& transport, Round round) {
  const int rank = transport.rank(), size = transport.size();
  for (int distance = 1; distance < size; distance *= 2) {
    round((rank + distance) % size, (rank - distance + size) % size);
  }
}

// Returns when all ranks have come here.
inline void Barrier(Transport& transport) {
  char mine = 0, theirs = 0;
  ForEachDisseminationRound(
      transport, [&](int to, int from) { transport.SendRecv({to, &mine, 1}, {from, &theirs, 1}); });
}

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_DISSEMINATION_H_
