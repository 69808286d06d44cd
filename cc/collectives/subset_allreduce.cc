#include "cc/collectives/subset_allreduce.h"

#include "cc/collectives/allreduce_execution.h"
#include "cc/collectives/collective_state.h"
#include "cc/collectives/reduction_spec.h"
#include "cc/transport/subset_transport.h"

namespace adasum {

void AllreduceAmong(const std::vector<int>& members, const AllreduceTensors& tensors,
                    RequestContext& context, std::unique_ptr<RequestState>* state) {
  if (*state == nullptr) {
    auto made = std::make_unique<CollectiveState>(context);
    made->is_tuned = true;  // that takes all ranks
    *state = std::move(made);
  }
  constexpr auto kAsInAll = SubsetTransport::Workspaces::kAsInAll;
  SubsetTransport traced(&context.transport, members, kAsInAll);
  SubsetTransport untraced(&context.untraced, members, kAsInAll);
  RequestContext among{traced,           untraced, context.topology, context.waits,
                       context.timeline, *state,   context.passive};
  const ReductionSpec spec = ReductionSpec::Parse(tensors.reduction, "", tensors.dtype);
  ExecuteAllreduce(tensors, spec, Segments(NumElements(tensors.shapes)), among);
}

}  // namespace adasum
