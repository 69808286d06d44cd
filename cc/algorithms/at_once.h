// The whole tree at once, for few leaves that read each other's memory: each combines one part of
// the vector of all leaves, for all.
#ifndef ADASUM_ALGORITHMS_AT_ONCE_H_
#define ADASUM_ALGORITHMS_AT_ONCE_H_

#include "cc/algorithms/collective_context.h"

namespace adasum {

// Reduces over all leaves of `transport`, at most kMostOperands; collective. Returns false, on all
// leaves alike and with nothing done, if moments must be taken of what is combined on the way.
bool ReduceAtOnce(const LeafTensors& tensors, const CollectiveContext& context);

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_AT_ONCE_H_
