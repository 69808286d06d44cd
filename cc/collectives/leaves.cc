#include "cc/collectives/leaves.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cc/collectives/refusal.h"
#include "cc/collectives/take_together.h"
#include "cc/transport/leaf_transport.h"
#include "cc/transport/traced_transport.h"

namespace adasum {
namespace {

// Of several processes: pairs of more have not enough lanes.
constexpr int kMostReplicas = 63;

}  // namespace

void Leaves::Open(const LeafNumbers& numbers) {
  // The same on all ranks: they run the same requests in the same order.
  bool is_open = true;
  std::vector<int> needed = replicas_open_;
  for (int process = 0; process < processes_.size(); ++process) {
    needed[process] = std::max(needed[process], numbers.CountOf(process));
    is_open = is_open && needed[process] == replicas_open_[process];
  }
  if (is_open) return;
  for (int process = 0; process < processes_.size() && processes_.size() > 1; ++process) {
    if (needed[process] <= kMostReplicas) continue;
    RefuseOnAllRanks(processes_,
                     "Expected at most " + std::to_string(kMostReplicas) +
                         " replicas in a process. Received: " + std::to_string(needed[process]) +
                         " on " + processes_.RankName(process) + ". Start more processes.");
  }
  TakeTogether(
      processes_, [&] { threads_.Grow(needed[processes_.rank()]); }, "",
      " Use fewer replicas or raise the limit.");
  int num_near = 0;  // leaves of this host
  for (int process = 0; process < processes_.size(); ++process) {
    const bool is_near = process == processes_.rank() || processes_.CanRead(process);
    num_near += is_near ? needed[process] : 0;
  }
  waits_.hot_pauses = std::min(waits_.hot_pauses, HotPauses(num_near));
  host_ = HostLeaves::Make(processes_, LeafNumbers(needed), waits_);
  replicas_open_ = std::move(needed);
}

void Leaves::ForEach(const LeafNumbers& numbers, const std::function<void(int, Transport&)>& body) {
  ThreadHub hub(numbers.CountOf(processes_.rank()), waits_);
  if (host_) host_->Begin();
  threads_.ForEach(&hub, [&](int replica) {
    LeafTransport transport(&processes_, &hub, host_.get(), &numbers, replica);
    TracedTransport traced(&transport, timeline_);
    body(replica, timeline_ ? static_cast<Transport&>(traced) : transport);
  });
}

}  // namespace adasum
