// How an allreduce is carried out once all ranks have agreed on it.
#ifndef ADASUM_COLLECTIVES_ALLREDUCE_EXECUTION_H_
#define ADASUM_COLLECTIVES_ALLREDUCE_EXECUTION_H_

#include "cc/collectives/allreduce.h"
#include "cc/collectives/reduction_spec.h"
#include "cc/engine/request.h"

namespace adasum {

// Collective. Throws Error.
void ExecuteAllreduce(const AllreduceTensors& tensors, const ReductionSpec& spec,
                      RequestContext& context);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_ALLREDUCE_EXECUTION_H_
