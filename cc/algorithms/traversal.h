// Leaves, a wire and a reduction: one vector for all.
#ifndef ADASUM_ALGORITHMS_TRAVERSAL_H_
#define ADASUM_ALGORITHMS_TRAVERSAL_H_

#include "cc/algorithms/collective_context.h"
#include "cc/core/schedule.h"

namespace adasum {

// How a vector of `num_bytes` travels; the same on all ranks.
Way WayOf(const Transport& transport, int64_t num_bytes);

// Scratch that ReduceLeaves takes for one request.
struct Room {
  int64_t work_bytes;  // of the transport's workspace where it needs one, else of LeafScratch::work
  int64_t landing_bytes;
  // What the arithmetic is handed at a time, at most.
  int64_t num_pieces;
  int64_t piece_bytes;
};
// On a transport as a device's, where no peer's memory is read in place and nothing is swapped
// whole.
Room RoomOf(const LeafTensors& tensors, const Transport& transport, const Arithmetic& arithmetic);

// Reduces over all leaves of `transport`; collective. Bytes sent per leaf: BytesSent (schedule.h),
// and those of kHalves besides where kAtOnce finds that operands cancel.
void ReduceLeaves(const LeafTensors& tensors, const CollectiveContext& context);

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_TRAVERSAL_H_
