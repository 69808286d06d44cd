// The traversal that all reductions share: fold, halve, combine, gather.
#ifndef ADASUM_TRAVERSAL_HALVING_DOUBLING_H_
#define ADASUM_TRAVERSAL_HALVING_DOUBLING_H_

#include "cc/core/arithmetic.h"
#include "cc/core/schedule.h"
#include "cc/core/transport.h"
#include "cc/reductions/reduction.h"
#include "cc/traversal/packed_leaf.h"

namespace adasum {

// How a vector of `num_bytes` travels; the same on all ranks.
Way WayOf(const Transport& transport, int64_t num_bytes);

// Reduces over all leaves of `transport`; collective. Bytes sent per leaf: BytesSent (schedule.h).
void HalvingDoubling(const Reduction& reduction, const LeafTensors& tensors, Transport& transport,
                     Arithmetic& arithmetic, LeafScratch& scratch);

}  // namespace adasum

#endif  // ADASUM_TRAVERSAL_HALVING_DOUBLING_H_
