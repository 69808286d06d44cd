#include "cc/algorithms/whole_tree.h"

#include "cc/algorithms/fusion_buffer.h"
#include "cc/algorithms/schedule.h"

namespace adasum {

void ReduceWholeTree(const LeafTensors& tensors, const CollectiveContext& context,
                     const std::vector<void*>& vectors) {
  const FusionBuffer buffer(tensors, context);
  const Reduction& reduction = context.reduction;
  std::vector<Moments>& moments = context.scratch.moments;
  for (const TreeNode& node : MakeTree(static_cast<int>(vectors.size()))) {
    // One tensor is combined where its user wants it.
    const bool works_in_output = node.is_final && buffer.num_segments() == 1;
    void* const out = works_in_output ? tensors.outputs[0] : vectors[node.left];
    const std::vector<Piece> pieces =
        buffer.Pieces(buffer.all(), vectors[node.left], vectors[node.right], out, node.is_final);
    moments.assign(reduction.NeedsMoments() ? buffer.num_segments() : 0, Moments());
    if (!moments.empty()) {
      context.arithmetic.AddMoments(tensors.dtype, pieces, moments.data());
      context.arithmetic.AwaitMoments();
    }
    reduction.Combine(
        {tensors.dtype, pieces, node.leaves, node.is_final, moments, context.arithmetic});
  }
}

}  // namespace adasum
