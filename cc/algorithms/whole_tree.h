// The whole tree over vectors that all lie here, as those that ranks enclose with a request.
#ifndef ADASUM_ALGORITHMS_WHOLE_TREE_H_
#define ADASUM_ALGORITHMS_WHOLE_TREE_H_

#include <vector>

#include "cc/algorithms/collective_context.h"

namespace adasum {

// Reduces the packed vectors of all leaves, two at least, to the outputs of `tensors`; its inputs
// are not looked at, and nothing is sent. Every leaf does so, and gets the bits that recursive
// doubling would give it. The vectors are used on the way, and hold nothing of worth afterwards.
void ReduceWholeTree(const LeafTensors& tensors, const CollectiveContext& context,
                     const std::vector<void*>& vectors);

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_WHOLE_TREE_H_
