// What every algorithm gets: a leaf's tensors, and what it reduces them with.
#ifndef ADASUM_ALGORITHMS_COLLECTIVE_CONTEXT_H_
#define ADASUM_ALGORITHMS_COLLECTIVE_CONTEXT_H_

#include <vector>

#include "cc/algorithms/cross_memory_policy.h"
#include "cc/algorithms/peer_stores.h"
#include "cc/algorithms/squared_norms.h"
#include "cc/core/arithmetic.h"
#include "cc/core/scratch.h"
#include "cc/core/segments.h"
#include "cc/core/transport.h"
#include "cc/core/tuning.h"
#include "cc/reductions/reduction.h"

namespace adasum {

// What one leaf keeps between collectives.
struct LeafScratch {
  // `memory` is where the leaf's tensors lie; it must outlive this.
  explicit LeafScratch(Memory& memory = HostMemory())
      : work{Scratch(memory), Scratch(memory)}, receive(memory) {}

  // The fusion buffer, in two slots that alternate: a peer that reads this leaf's memory may still
  // read one when the next collective begins. A result depends on every leaf, so that no peer reads
  // the slot before that any more.
  Scratch work[2];
  int slot = 0;
  Scratch receive;  // the receive buffer, for peers whose memory can't be read
  // The moments of one level, own and a peer's.
  std::vector<Moments> moments, their_moments;
  // The inner products that this leaf has taken, and those of all leaves.
  std::vector<double> grams, grams_of_leaves;
  NormsScratch norms;
  PeerStores stores;
  CrossMemoryPolicy cross_memory;
};

// One leaf's share of an allreduce of a list of tensors of one dtype.
struct LeafTensors {
  DType dtype;
  const Segments& segments;                // one segment per tensor
  const std::vector<const void*>& inputs;  // one per segment; null where it is empty
  // One per segment; an empty list where this leaf's caller has no use for the result. An output
  // may be this leaf's own input of the same segment: it is written only after all peers have
  // read what they want of it.
  const std::vector<void*>& outputs;
  // One per segment, found on the way and the same bits on all leaves; null where nobody asks,
  // which all leaves do alike. They stay as they are for a reduction that needs no moments.
  SquaredNorms* norms = nullptr;
};

// What a collective works with, from the choice of the algorithm down. All must outlive it.
struct CollectiveContext {
  const Reduction& reduction;
  Transport& transport;
  Arithmetic& arithmetic;
  LeafScratch& scratch;
  // The same on all leaves.
  Tuning tuning = {};
};

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_COLLECTIVE_CONTEXT_H_
