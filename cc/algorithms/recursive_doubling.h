// Recursive doubling, for short vectors: partners exchange whole vectors, and both combine them.
#ifndef ADASUM_ALGORITHMS_RECURSIVE_DOUBLING_H_
#define ADASUM_ALGORITHMS_RECURSIVE_DOUBLING_H_

#include "cc/algorithms/collective_context.h"

namespace adasum {

// The tree of HalvingDoubling with one message a level: no halves to give back, no moments to sum.
// Both partners work on the same operands in the same order, and so end with the same bits.
void RecursiveDoubling(const LeafTensors& tensors, const CollectiveContext& context);

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_RECURSIVE_DOUBLING_H_
