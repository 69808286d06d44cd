// The result of a whole tree as a weighted sum of its leaves, from the leaves' inner products
// alone: what meets on the way is such a sum, too, and its products with others are sums of theirs.
#ifndef ADASUM_ALGORITHMS_TREE_WEIGHTS_H_
#define ADASUM_ALGORITHMS_TREE_WEIGHTS_H_

#include <vector>

#include "cc/algorithms/schedule.h"
#include "cc/algorithms/squared_norms.h"
#include "cc/core/arithmetic.h"
#include "cc/reductions/reduction.h"

namespace adasum {

// Of one segment of `dtype`. `gram` holds the GramSize(n) inner products of its n leaves;
// weights[i] becomes that of leaf i. Returns false if too little is left of what meets on the way
// for its products to be told from those of the leaves (they cancel, overflow or underflow), or if
// a weight is none that the dtype's arithmetic holds: the tree has to be gone through node by node
// then.
bool WeightsOfTree(const Reduction& reduction, const std::vector<TreeNode>& tree, int n,
                   DType dtype, const double* gram, double* weights);

// Of the sum of the n leaves with these weights.
SquaredNorms NormsOfSum(int n, const double* gram, const double* weights);

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_TREE_WEIGHTS_H_
