// Reductions in two stages: one reduction inside every host, another one across hosts.
//
// 1. The leaves of a host reduce their tensors; each of its ranks gets the host's result, or
//    what it needs of it for the next stage.
// 2. The tensors are dealt, in runs of about equal size, to the first q ranks of every host, q
//    being the fewest ranks that a host has. The k-th ranks of all hosts reduce the k-th run: q
//    streams leave a host at once, and whole tensors stay together, as Adasum's moments want it.
// 3. The ranks of a host read the finished runs from those among them that have them.
#ifndef ADASUM_COLLECTIVES_HIERARCHY_H_
#define ADASUM_COLLECTIVES_HIERARCHY_H_

#include <optional>
#include <vector>

#include "cc/algorithms/collective_context.h"
#include "cc/collectives/finished_runs.h"
#include "cc/core/segments.h"
#include "cc/engine/topology.h"
#include "cc/transport/subset_transport.h"

namespace adasum {

// Memory of stages 2 and 3.
struct HierarchyScratch {
  LeafScratch across;
  RunsScratch runs;
};

// One rank's way through the stages.
//
// Where peers read this rank's memory, it is written again only after they have finished with it,
// also between stages in which not all ranks of the host take part:
// * A workspace is read on this host only. Of two in a row the second may be filled while the
//   first is still read; a third overwrites the first. In between lies either a block of stage 1,
//   whose result depends on every leaf of the host (where a rank gets no more than its run, all
//   tell each other that they are done instead), or a piece of stage 3, which begins with a barrier
//   of the host; its table comes first. Stage 2 has no workspace: its peers are elsewhere.
// * Leaves that are threads read the outputs and the scratch of stage 1 and 2 in place. A barrier
//   of the host precedes the writes of stage 2; stage 3 writes only what stage 2 has not touched
//   here, and to `shown`, which only the host reads.
// * Outputs that lie in reach are read by the host in stage 3, which ends with a barrier then.
class Hierarchy {
 public:
  // `all` and `scratch` must outlive this.
  Hierarchy(Transport* all, const HostRanks& hosts, HierarchyScratch* scratch);

  // For stage 1: the ranks of this host.
  Transport& host() { return host_; }
  const std::vector<int>& host_ranks() const { return host_.members(); }

  // Stage 1, collective. Where stage 2 follows, and the ranks of the host reach each other's
  // tensors, each gets its run of the host's result alone, which is all that it needs.
  void ReduceHost(const LeafTensors& leaf, const CollectiveContext& context) const;

  // Stages 2 and 3, collective. `results` holds, per segment, this host's result on entry and that
  // of all hosts on return; null where a segment is empty. With one host nothing is to be done. Of
  // a result by ReduceHost it needs no more than there is. `norms` are as those of LeafTensors,
  // with the hosts' results for leaves; with one host they stay as they are.
  void CombineHosts(const Reduction& reduction, DType dtype, const Segments& segments,
                    const std::vector<void*>& results, Arithmetic& arithmetic,
                    SquaredNorms* norms = nullptr);

 private:
  // The segments of the k-th run, and of the run of each rank of this host.
  Range Run(const Segments& segments, int k) const;
  std::vector<Range> RunsOnHost(const Segments& segments) const;
  void ReduceOwnRun(const Reduction& reduction, const StageTensors& tensors);
  void SpreadOwnRun(const StageTensors& tensors);

  SubsetTransport host_;
  int num_runs_;
  std::optional<SubsetTransport> across_;  // the k-th ranks of all hosts, for k < num_runs_
  HierarchyScratch* scratch_;
  bool has_several_hosts_;
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_HIERARCHY_H_
