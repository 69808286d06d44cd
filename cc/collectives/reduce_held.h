// Reduces leaves of which this rank holds a part each, all of them the same part: nothing but sums
// of products travels between the ranks.
#ifndef ADASUM_COLLECTIVES_REDUCE_HELD_H_
#define ADASUM_COLLECTIVES_REDUCE_HELD_H_

#include <cstdint>
#include <vector>

#include "cc/core/arithmetic.h"
#include "cc/core/transport.h"
#include "cc/reductions/reduction.h"

namespace adasum {

// This rank's part of one segment.
struct HeldSegment {
  std::vector<char*> leaves;  // values of every leaf; may be overwritten
  char* out;                  // overlaps none of them
  int64_t num_elements;       // any number on each rank
};

struct HeldLeaves {
  DType dtype;
  int num_leaves;
  std::vector<HeldSegment> segments;  // as many on all ranks
};

// Collective. The result of the whole tree in every `out`, by inner products of whole segments.
void ReduceHeld(const HeldLeaves& held, const Reduction& reduction, Transport& transport,
                Arithmetic& arithmetic);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_REDUCE_HELD_H_
