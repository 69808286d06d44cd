#include "cc/collectives/blocks.h"

#include <vector>

#include "cc/algorithms/reduce_leaves.h"

namespace adasum {
namespace {

constexpr int64_t kSharedBlockBytes = int64_t{1} << 20;

}  // namespace

int64_t BlockBytes(const Transport& transport) {
  return transport.requires_workspace() ? kSharedBlockBytes : kMessageBytes;
}

void ReduceInBlocks(const LeafTensors& tensors, const CollectiveContext& context) {
  // Every core has a cache of its own.
  const int64_t block_bytes = BlockBytes(context.transport) * context.arithmetic.Width();
  const int64_t block_elements = block_bytes / ElementBytes(tensors.dtype);
  const Segments& all = tensors.segments;
  if (all.num_elements() <= block_elements) return ReduceLeaves(tensors, context);
  for (int64_t begin = 0; begin < all.size();) {
    std::vector<int64_t> num_elements;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    int64_t end = begin;
    int64_t total = 0;
    for (; end < all.size(); ++end) {
      int64_t next = all.offset(end + 1) - all.offset(end);
      if (end > begin && total + next > block_elements) break;
      total += next;
      num_elements.push_back(next);
      inputs.push_back(tensors.inputs[end]);
      if (!tensors.outputs.empty()) outputs.push_back(tensors.outputs[end]);
    }
    const Segments segments(num_elements);
    SquaredNorms* const norms = tensors.norms == nullptr ? nullptr : tensors.norms + begin;
    ReduceLeaves({tensors.dtype, segments, inputs, outputs, norms}, context);
    begin = end;
  }
}

}  // namespace adasum
