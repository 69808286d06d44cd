// How an allreduce is carried out once all ranks have agreed on it.
#ifndef ADASUM_COMMUNICATOR_ALLREDUCE_EXECUTION_H_
#define ADASUM_COMMUNICATOR_ALLREDUCE_EXECUTION_H_

#include "cc/communicator/allreduce.h"
#include "cc/communicator/reduction_spec.h"
#include "cc/communicator/request.h"

namespace adasum {

// Collective. Throws Error.
void ExecuteAllreduce(const AllreduceTensors& tensors, const ReductionSpec& spec,
                      RequestContext& context);

}  // namespace adasum

#endif  // ADASUM_COMMUNICATOR_ALLREDUCE_EXECUTION_H_
