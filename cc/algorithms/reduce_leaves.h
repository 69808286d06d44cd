// The choice of the algorithm.
#ifndef ADASUM_ALGORITHMS_REDUCE_LEAVES_H_
#define ADASUM_ALGORITHMS_REDUCE_LEAVES_H_

#include "cc/algorithms/collective_context.h"
#include "cc/algorithms/schedule.h"

namespace adasum {

// The algorithm for vectors of `num_bytes`; the same on all ranks.
Algorithm SelectAlgorithm(const Transport& transport, int64_t num_bytes);

// Scratch that ReduceLeaves takes for one request.
struct Room {
  int64_t work_bytes;  // of the transport's workspace where it needs one, else of LeafScratch::work
  int64_t receive_bytes;
  // What the arithmetic is handed at a time, at most.
  int64_t num_pieces;
  int64_t piece_bytes;
};
// On a transport like a device's, on which recursive halving is the only algorithm.
Room RoomOf(const LeafTensors& tensors, const Transport& transport, const Arithmetic& arithmetic);

// Reduces over all leaves of `transport`; collective. Bytes sent per leaf: BytesSent (schedule.h),
// and those of kRecursiveHalving besides where kDirect finds that operands cancel.
void ReduceLeaves(const LeafTensors& tensors, const CollectiveContext& context);

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_REDUCE_LEAVES_H_
