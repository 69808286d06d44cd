// The traversal that all reductions share: fold, halve, combine, gather.
#ifndef ADASUM_REDUCTIONS_HALVING_DOUBLING_H_
#define ADASUM_REDUCTIONS_HALVING_DOUBLING_H_

#include <memory>
#include <vector>

#include "cc/core/arithmetic.h"
#include "cc/core/segments.h"
#include "cc/core/transport.h"
#include "cc/reductions/reduction.h"

namespace adasum {

// Host memory that grows to the largest size asked for and is kept between calls, so that a
// training step allocates nothing. One owner at a time.
class Scratch {
 public:
  void* Get(int64_t num_bytes);

 private:
  struct Free {
    void operator()(void* bytes) const;
  };
  std::unique_ptr<void, Free> bytes_;
  int64_t capacity_ = 0;
};

// What one leaf keeps between collectives.
struct LeafScratch {
  // The packed vector being combined, in one of two places in turn: a peer that reads this leaf's
  // memory may be at it still when the next collective begins. A result depends on every leaf, so
  // that nobody reads the one before the last any more.
  Scratch work[2];
  int turn = 0;
  Scratch landing;  // what peers send, where their memory can't be read
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
};

// Reduces over all leaves of `transport`; collective. Bytes sent per leaf: BytesSent (schedule.h).
void HalvingDoubling(const Reduction& reduction, const LeafTensors& tensors, Transport& transport,
                     Arithmetic& arithmetic, LeafScratch& scratch);

}  // namespace adasum

#endif  // ADASUM_REDUCTIONS_HALVING_DOUBLING_H_
