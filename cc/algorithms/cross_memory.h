// Direct allreduce of tensors that lie anywhere in the memory of processes of one host: each leaf
// copies from the others what it combines, and the result to them.
#ifndef ADASUM_ALGORITHMS_CROSS_MEMORY_H_
#define ADASUM_ALGORITHMS_CROSS_MEMORY_H_

#include "cc/algorithms/collective_context.h"
#include "cc/algorithms/shared_tensors.h"

namespace adasum {

// Reduces over all leaves, at most kMostOperands, of whose tensors `shared` has learnt the
// addresses; collective. Returns false, on all leaves alike and with nothing done, if moments must
// be taken of what is combined on the way.
bool CrossMemoryAllreduce(const LeafTensors& tensors, const CollectiveContext& context,
                          SharedTensors& shared);

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_CROSS_MEMORY_H_
