// The weights with which all leaves enter the result, agreed on by the leaves.
#ifndef ADASUM_ALGORITHMS_WEIGHTS_OF_LEAVES_H_
#define ADASUM_ALGORITHMS_WEIGHTS_OF_LEAVES_H_

#include <vector>

#include "cc/algorithms/collective_context.h"
#include "cc/algorithms/schedule.h"

namespace adasum {

// Collective over all leaves. `grams` holds, of every segment, the inner products of all leaves'
// parts that this leaf combines; (*weights)[segment * n + i] becomes that of leaf i of n, and
// tensors.norms what the result keeps, where it is asked for. Returns false, on all leaves alike,
// if moments must be taken of what is combined on the way (tree_weights.h). Each leaf then knows
// that all others have taken their products.
bool WeightsOfLeaves(const LeafTensors& tensors, const CollectiveContext& context,
                     const std::vector<TreeNode>& tree, std::vector<double> grams,
                     std::vector<double>* weights);

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_WEIGHTS_OF_LEAVES_H_
