// The replicas of one process, side by side: a thread and a wire for each.
#ifndef ADASUM_COLLECTIVES_LEAVES_H_
#define ADASUM_COLLECTIVES_LEAVES_H_

#include <functional>
#include <memory>
#include <vector>

#include "cc/collectives/leaf_threads.h"
#include "cc/core/backoff.h"
#include "cc/core/leaf_numbers.h"
#include "cc/core/timeline.h"
#include "cc/core/transport.h"
#include "cc/transport/host_leaves.h"

namespace adasum {

class Leaves {
 public:
  // `processes` connects the processes, `waits` is what it waits by; `timeline` may be null. All
  // must outlive this.
  Leaves(WaitControl* waits, Transport* processes, Timeline* timeline)
      : waits_(*waits),
        processes_(*processes),
        timeline_(timeline),
        replicas_open_(processes->size(), 1),
        threads_(waits) {}

  // Sees to threads and wires for all replicas, the same numbers on all ranks; the first time it is
  // collective. Throws ResourceExhausted, on all ranks alike and naming the rank, where a thread
  // can't be had.
  void Open(const LeafNumbers& numbers);

  // Calls body(replica, transport) for each replica of this process at the same time, `transport`
  // being its wire to all leaves of all processes. As LeafThreads::ForEach. After Open.
  void ForEach(const LeafNumbers& numbers, const std::function<void(int, Transport&)>& body);

 private:
  WaitControl& waits_;
  Transport& processes_;
  Timeline* const timeline_;
  std::vector<int> replicas_open_;    // of each process
  std::unique_ptr<HostLeaves> host_;  // null where leaves can't share memory
  LeafThreads threads_;
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_LEAVES_H_
