// The choice of the algorithm.
#ifndef ADASUM_ALGORITHMS_REDUCE_LEAVES_H_
#define ADASUM_ALGORITHMS_REDUCE_LEAVES_H_

#include <functional>
#include <vector>

#include "cc/algorithms/collective_context.h"

namespace adasum {

enum class Algorithm {
  // Down the tree and back: 2 (p - 1) / p of the bytes, and with a fold once more each way.
  kRecursiveHalving,
  // Every rank reads a part of all vectors, and then the other parts of the result: 2 (N - 1) / N.
  kDirect,
  // The same in messages, for few ranks between hosts whose number is no power of two.
  kNetworkDirect,
  // log2(p) times the bytes in the fewest messages, and no moments.
  kRecursiveDoubling,
};

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

// Reduces over all leaves of `transport`; collective. Where a direct allreduce finds that operands
// cancel, recursive halving follows it.
void ReduceLeaves(const LeafTensors& tensors, const CollectiveContext& context);

// The same for a reduction that needs no moments, where leaf k wants shares[k] of the result alone,
// which are whole segments: where all reach all tensors each copies nothing but what it combines,
// and writes nothing else. Elsewhere, or if that was slower, reduce() does it instead, and may
// write all outputs. Collective.
void ReduceShares(const LeafTensors& tensors, const std::vector<Range>& shares,
                  const CollectiveContext& context, const std::function<void()>& reduce);

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_REDUCE_LEAVES_H_
