#include "cc/algorithms/combine_tree.h"

#include "cc/algorithms/tiles.h"
#include "cc/core/bytes.h"

namespace adasum {

int64_t BytesBetween(int num_leaves, const Arithmetic& arithmetic) {
  return num_leaves * kTileBytes * arithmetic.Width();
}

void CombineTree(const FusionBuffer& buffer, const CollectiveContext& context,
                 const std::vector<TreeNode>& tree, Range range,
                 const std::vector<const void*>& runs, char* result, char* between,
                 bool is_past_caches) {
  const int64_t room_bytes = static_cast<int64_t>(runs.size()) * kTileBytes;
  const auto combine = [&](Range tile, char* room, Arithmetic& arithmetic) {
    const int64_t skip = buffer.Bytes({range.begin, tile.begin});
    std::vector<const void*> of_tile(runs);
    for (const void*& run : of_tile) run = run == nullptr ? nullptr : At(run, skip);
    for (const TreeNode& node : tree) {
      const bool is_in_place = node.is_final && !is_past_caches;
      char* const final = result == nullptr ? nullptr : result + skip;
      char* const out = is_in_place ? final : room + node.left * kTileBytes;
      const std::vector<Piece> pieces =
          buffer.Pieces(tile, of_tile[node.left], of_tile[node.right], out, node.is_final);
      context.reduction.Combine(
          {buffer.dtype(), pieces, node.leaves, node.is_final, {}, arithmetic});
      of_tile[node.left] = out;
    }
    if (!is_past_caches) return;
    arithmetic.CopyPiecesPastCaches(buffer.dtype(), {{0, of_tile[tree.back().left], nullptr,
                                                      result + skip, nullptr, tile.size()}});
  };
  ForEachTile(range, buffer.Elements(kTileBytes), context.arithmetic, between, room_bytes, combine);
}

}  // namespace adasum
