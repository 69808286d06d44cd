// The whole tree of a reduction that needs no moments, over leaves that all lie here.
#ifndef ADASUM_ALGORITHMS_COMBINE_TREE_H_
#define ADASUM_ALGORITHMS_COMBINE_TREE_H_

#include <vector>

#include "cc/algorithms/fusion_buffer.h"
#include "cc/algorithms/schedule.h"

namespace adasum {

// Combines `range` of all leaves node by node, as much at a time as stays in the first caches on
// the way. `runs` are packed values of each leaf that begin with the range, null for the own ones
// where they are. The result is a packed run at `result`, which is written past the caches if so
// told, and in the caller's tensors; `result` is null if it is wanted there alone. Takes
// BytesBetween(...) at `between`.
void CombineTree(const FusionBuffer& buffer, const CollectiveContext& context,
                 const std::vector<TreeNode>& tree, Range range,
                 const std::vector<const void*>& runs, char* result, char* between,
                 bool is_past_caches = false);

int64_t BytesBetween(int num_leaves, const Arithmetic& arithmetic);

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_COMBINE_TREE_H_
