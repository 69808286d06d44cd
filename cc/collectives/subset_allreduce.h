// An allreduce among some ranks of a communicator, inside of a request of all.
#ifndef ADASUM_COLLECTIVES_SUBSET_ALLREDUCE_H_
#define ADASUM_COLLECTIVES_SUBSET_ALLREDUCE_H_

#include <memory>
#include <vector>

#include "cc/collectives/allreduce.h"
#include "cc/engine/request.h"

namespace adasum {

// Of one replica per rank, in host memory. `members` are ranks, ascending, this one included, the
// same on all of them. `state` is what such allreduces keep; null at first.
void AllreduceAmong(const std::vector<int>& members, const AllreduceTensors& tensors,
                    RequestContext& context, std::unique_ptr<RequestState>* state);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_SUBSET_ALLREDUCE_H_
