#include "cc/algorithms/traversal.h"

#include <algorithm>

#include "cc/algorithms/at_once.h"
#include "cc/algorithms/halving_doubling.h"
#include "cc/algorithms/packed_leaf.h"
#include "cc/algorithms/recursive_doubling.h"
#include "cc/core/schedule.h"

namespace adasum {

Way WayOf(const Transport& transport, int64_t num_bytes) {
  if (num_bytes <= transport.ShortBytes()) return Way::kWhole;
  if (!transport.needs_workspace() || transport.size() > kMostOperands) return Way::kHalves;
  for (int rank = 0; rank < transport.size(); ++rank) {
    if (rank != transport.rank() && !transport.CanRead(rank)) return Way::kHalves;
  }
  return Way::kAtOnce;
}

Room RoomOf(const LeafTensors& tensors, const Transport& transport, const Arithmetic& arithmetic) {
  const int64_t element_bytes = ElementBytes(tensors.dtype);
  const int64_t num_elements = tensors.segments.num_elements();
  const int64_t num_bytes = num_elements * element_bytes;
  Room room{0, 0, tensors.segments.size(), num_bytes};
  if (num_bytes == 0 || transport.size() == 1) return room;
  const bool is_one_run = tensors.segments.size() == 1 && !transport.needs_workspace();
  const bool works_in_output = is_one_run && !tensors.outputs.empty();
  if (!works_in_output) room.work_bytes = num_bytes;
  const Schedule schedule = MakeSchedule(transport.rank(), transport.size(), num_elements);
  switch (schedule.fold) {
    case Fold::kGives:  // hears the result step by step
      if (!works_in_output) {
        const int64_t step = transport.StepBytes(schedule.fold_peer) * arithmetic.Width();
        room.landing_bytes = std::min(num_bytes, step);
      }
      break;
    case Fold::kTakes:
      room.landing_bytes = num_bytes;
      break;
    case Fold::kNone:  // the first level keeps more than those after it
      room.landing_bytes = schedule.levels[0].keep.size() * element_bytes;
  }
  return room;
}

void ReduceLeaves(const LeafTensors& tensors, const CollectiveContext& context) {
  const int64_t num_bytes = tensors.segments.num_elements() * ElementBytes(tensors.dtype);
  if (num_bytes == 0) return;
  if (context.transport.size() == 1) return PackedLeaf(tensors, context).DeliverInputs();
  const Way way = WayOf(context.transport, num_bytes);
  if (way == Way::kWhole) return RecursiveDoubling(tensors, context);
  if (way == Way::kAtOnce && ReduceAtOnce(tensors, context)) return;
  HalvingDoubling(tensors, context);
}

}  // namespace adasum
