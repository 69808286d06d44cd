// How an allreduce is carried out once all ranks have agreed on it.
#ifndef ADASUM_COLLECTIVES_ALLREDUCE_EXECUTION_H_
#define ADASUM_COLLECTIVES_ALLREDUCE_EXECUTION_H_

#include "cc/collectives/allreduce.h"
#include "cc/collectives/reduction_spec.h"
#include "cc/core/segments.h"
#include "cc/engine/request.h"

namespace adasum {

// Collective. `segments` are those of the tensors' shapes. Throws Error.
void ExecuteAllreduce(const AllreduceTensors& tensors, const ReductionSpec& spec,
                      const Segments& segments, RequestContext& context);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_ALLREDUCE_EXECUTION_H_
