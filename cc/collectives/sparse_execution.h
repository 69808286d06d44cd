// Carries out sparse allreduces.
#ifndef ADASUM_COLLECTIVES_SPARSE_EXECUTION_H_
#define ADASUM_COLLECTIVES_SPARSE_EXECUTION_H_

#include "cc/collectives/sparse_allreduce.h"
#include "cc/reductions/reduction.h"

namespace adasum {

// On the communication thread, once all ranks agreed. Throws Error.
void ExecuteSparseAllreduce(const SparseAllreduceTensors& tensors, const Reduction& reduction,
                            RequestContext& context);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_SPARSE_EXECUTION_H_
