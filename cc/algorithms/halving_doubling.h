// Recursive halving, then doubling: for any number of leaves on any transport.
#ifndef ADASUM_ALGORITHMS_HALVING_DOUBLING_H_
#define ADASUM_ALGORITHMS_HALVING_DOUBLING_H_

#include "cc/algorithms/collective_context.h"

namespace adasum {

// Reduces over all leaves of `transport`, two at least, vectors that are not empty; collective.
void HalvingDoubling(const LeafTensors& tensors, const CollectiveContext& context);

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_HALVING_DOUBLING_H_
