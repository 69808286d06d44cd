// Down the tree by halves and back: for any number of leaves on any wire.
#ifndef ADASUM_TRAVERSAL_HALVING_DOUBLING_H_
#define ADASUM_TRAVERSAL_HALVING_DOUBLING_H_

#include "cc/core/arithmetic.h"
#include "cc/core/transport.h"
#include "cc/reductions/reduction.h"
#include "cc/traversal/packed_leaf.h"

namespace adasum {

// Reduces over all leaves of `transport`, two at least, vectors that are not empty; collective.
void HalvingDoubling(const Reduction& reduction, const LeafTensors& tensors, Transport& transport,
                     Arithmetic& arithmetic, LeafScratch& scratch);

}  // namespace adasum

#endif  // ADASUM_TRAVERSAL_HALVING_DOUBLING_H_
