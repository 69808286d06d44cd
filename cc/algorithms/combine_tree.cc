#include "cc/algorithms/combine_tree.h"

#include <algorithm>

#include "cc/core/bytes.h"

namespace adasum {
namespace {

constexpr int64_t kTileBytes = int64_t{32} << 10;

}  // namespace

int64_t BytesBetween(int num_leaves, const Arithmetic& arithmetic) {
  return num_leaves * kTileBytes * arithmetic.Width();
}

void CombineTree(const FusionBuffer& buffer, const CollectiveContext& context,
                 const std::vector<TreeNode>& tree, Range range,
                 const std::vector<const void*>& runs, char* result, char* between,
                 bool is_past_caches) {
  const int64_t tile = buffer.Elements(kTileBytes * context.arithmetic.Width());
  for (int64_t begin = range.begin; begin < range.end; begin += tile) {
    const Range part{begin, std::min(begin + tile, range.end)};
    const int64_t skip = buffer.Bytes({range.begin, begin}), part_bytes = buffer.Bytes(part);
    std::vector<const void*> of_tile(runs);
    for (const void*& run : of_tile) run = run == nullptr ? nullptr : At(run, skip);
    for (const TreeNode& node : tree) {
      const bool is_in_place = node.is_final && !is_past_caches;
      char* const out = is_in_place ? result + skip : between + node.left * part_bytes;
      const std::vector<Piece> pieces =
          buffer.Pieces(part, of_tile[node.left], of_tile[node.right], out, node.is_final);
      context.reduction.Combine(
          {buffer.dtype(), pieces, node.leaves, node.is_final, {}, context.arithmetic});
      of_tile[node.left] = out;
    }
    if (!is_past_caches) continue;
    context.arithmetic.CopyPiecesPastCaches(
        buffer.dtype(),
        {{0, of_tile[tree.back().left], nullptr, result + skip, nullptr, part.size()}});
  }
}

}  // namespace adasum
