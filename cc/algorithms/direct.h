// Direct (one-shot) allreduce, for few leaves that read each other's memory: each combines one part
// of all leaves' vectors for all, with weights from the Gram matrix of the leaves.
#ifndef ADASUM_ALGORITHMS_DIRECT_H_
#define ADASUM_ALGORITHMS_DIRECT_H_

#include "cc/algorithms/collective_context.h"

namespace adasum {

// Reduces over all leaves of `transport`, at most kMostOperands; collective. Returns false, on all
// leaves alike and with nothing done, if moments must be taken of what is combined on the way.
bool DirectAllreduce(const LeafTensors& tensors, const CollectiveContext& context);

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_DIRECT_H_
