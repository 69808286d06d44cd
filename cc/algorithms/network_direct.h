// Direct allreduce over a network: each leaf receives one part of all leaves' vectors, combines it,
// and sends the result to all.
//
// N leaves send 2 (N - 1) / N of a vector each, whatever N. Recursive halving does so for powers of
// two only: a fold adds a whole vector each way, one after the other with all else. With 3 leaves
// that is 3 times a vector's time on the wire, and 4/3 here.
#ifndef ADASUM_ALGORITHMS_NETWORK_DIRECT_H_
#define ADASUM_ALGORITHMS_NETWORK_DIRECT_H_

#include "cc/algorithms/collective_context.h"

namespace adasum {

// Whether NetworkDirectAllreduce is the better algorithm; the same on all leaves.
bool SuitsNetworkDirect(const Transport& transport);

// Reduces over all leaves of `transport`; collective. Returns false, on all leaves alike and with
// nothing written, if moments must be taken of what is combined on the way.
bool NetworkDirectAllreduce(const LeafTensors& tensors, const CollectiveContext& context);

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_NETWORK_DIRECT_H_
