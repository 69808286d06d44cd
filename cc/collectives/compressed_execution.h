// How an allreduce of encoded tensors is carried out.
#ifndef ADASUM_COLLECTIVES_COMPRESSED_EXECUTION_H_
#define ADASUM_COLLECTIVES_COMPRESSED_EXECUTION_H_

#include "cc/arithmetic/instruction_sets.h"
#include "cc/collectives/compressed_allreduce.h"
#include "cc/collectives/compressed_scratch.h"
#include "cc/core/timeline.h"
#include "cc/core/transport.h"
#include "cc/reductions/reduction.h"

namespace adasum {

// Collective; all ranks have found shapes, dtype and codec equal. Throws ResourceExhausted on all
// ranks where one lacks memory. `timeline` may be null.
void ExecuteCompressedAllreduce(const CompressedTensors& tensors, const Reduction& reduction,
                                Transport& transport, InstructionSet instruction_set,
                                CompressedScratch& scratch, Timeline* timeline);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_COMPRESSED_EXECUTION_H_
