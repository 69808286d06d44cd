// What the collectives of one communicator keep between requests.
#ifndef ADASUM_COLLECTIVES_COLLECTIVE_STATE_H_
#define ADASUM_COLLECTIVES_COLLECTIVE_STATE_H_

#include <memory>
#include <vector>

#include "cc/algorithms/collective_context.h"
#include "cc/arithmetic/helper_threads.h"
#include "cc/collectives/compressed_scratch.h"
#include "cc/collectives/deadline_round.h"
#include "cc/collectives/hierarchy.h"
#include "cc/collectives/leaves.h"
#include "cc/collectives/partial_rounds.h"
#include "cc/collectives/sparse_scratch.h"
#include "cc/collectives/streaming_store_policy.h"
#include "cc/core/tuning.h"
#include "cc/engine/request.h"

namespace adasum {

struct CollectiveState : RequestState {
  explicit CollectiveState(RequestContext& context)
      : leaves(&context.waits, &context.untraced, context.timeline) {}

  bool HasUnderWay() override {
    deadline_state.late.Progress();
    return !deadline_state.late.empty();
  }

  Leaves leaves;
  std::vector<LeafScratch> scratch;  // of each replica of this process
  HierarchyScratch hierarchy_scratch;
  CompressedScratch compressed_scratch;
  SparseScratch sparse_scratch;
  PartialRounds partial_rounds;
  DeadlineState deadline_state;
  std::unique_ptr<RequestState> state_among;  // of allreduces among some ranks
  StreamingStorePolicy streaming_store_policy;
  HelperThreads helpers;
  Tuning tuning;
  bool is_tuned = false;
};

// Made by the communicator's first collective. Requests of other kinds keep nothing.
inline CollectiveState& StateOf(RequestContext& context) {
  if (!context.state) context.state = std::make_unique<CollectiveState>(context);
  return static_cast<CollectiveState&>(*context.state);
}

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_COLLECTIVE_STATE_H_
