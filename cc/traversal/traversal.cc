#include "cc/traversal/traversal.h"

#include "cc/traversal/at_once.h"
#include "cc/traversal/halving_doubling.h"
#include "cc/traversal/recursive_doubling.h"

namespace adasum {

Way WayOf(const Transport& transport, int64_t num_bytes) {
  if (num_bytes <= transport.ShortBytes()) return Way::kWhole;
  if (!transport.needs_workspace() || transport.size() > kMostOperands) return Way::kHalves;
  for (int rank = 0; rank < transport.size(); ++rank) {
    if (rank != transport.rank() && !transport.CanRead(rank)) return Way::kHalves;
  }
  return Way::kAtOnce;
}

void ReduceLeaves(const Reduction& reduction, const LeafTensors& tensors, Transport& transport,
                  Arithmetic& arithmetic, LeafScratch& scratch) {
  const int64_t num_bytes = tensors.segments.num_elements() * ElementBytes(tensors.dtype);
  if (num_bytes == 0) return;
  if (transport.size() == 1) {
    return PackedLeaf(tensors, transport, arithmetic, scratch).DeliverInputs();
  }
  const Way way = WayOf(transport, num_bytes);
  if (way == Way::kWhole) {
    return RecursiveDoubling(reduction, tensors, transport, arithmetic, scratch);
  }
  if (way == Way::kAtOnce && ReduceAtOnce(reduction, tensors, transport, arithmetic, scratch)) {
    return;
  }
  HalvingDoubling(reduction, tensors, transport, arithmetic, scratch);
}

}  // namespace adasum
