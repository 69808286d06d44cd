// Zero-copy direct allreduce, for few leaves whose tensors all can read and write: nothing is
// packed, and nothing is delivered.
#ifndef ADASUM_ALGORITHMS_ZERO_COPY_H_
#define ADASUM_ALGORITHMS_ZERO_COPY_H_

#include "cc/algorithms/collective_context.h"
#include "cc/algorithms/shared_tensors.h"

namespace adasum {

// Reduces over all leaves, at most kMostOperands, whose tensors `shared` has found; collective.
// Returns false, on all leaves alike and with nothing done, if moments must be taken of what is
// combined on the way.
bool ZeroCopyAllreduce(const LeafTensors& tensors, const CollectiveContext& context,
                       SharedTensors& shared);

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_ZERO_COPY_H_
