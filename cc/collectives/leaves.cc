#include "cc/collectives/leaves.h"

#include <algorithm>
#include <string>

#include "cc/core/error.h"
#include "cc/transport/gather.h"
#include "cc/transport/leaf_transport.h"
#include "cc/transport/traced_transport.h"

namespace adasum {

void Leaves::Open(int num_replicas) {
  // The same on all ranks: they run the same requests in the same order.
  if (num_replicas <= num_open_) return;
  std::string failure;
  try {
    threads_.Grow(num_replicas);
  } catch (const Error& error) {
    failure = error.what();
  }
  const std::vector<std::string> failures = GatherTexts(processes_, failure);
  for (size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    throw Error::Common(ErrorCode::kResourceExhausted,
                        "rank " + std::to_string(rank) + ": " + failures[rank] +
                            " Use fewer replicas or raise the limit.");
  }
  int num_near = 1;  // processes of this host
  for (int process = 0; process < processes_.size(); ++process) {
    num_near += process != processes_.rank() && processes_.CanRead(process);
  }
  waits_.hot_pauses = std::min(waits_.hot_pauses, HotPauses(num_near * num_replicas));
  host_ = HostLeaves::Make(processes_, num_replicas, waits_);
  num_open_ = num_replicas;
}

void Leaves::ForEach(int num_replicas, const std::function<void(int, Transport&)>& body) {
  ThreadHub hub(num_replicas, waits_);
  if (host_) host_->Begin();
  threads_.ForEach(&hub, [&](int replica) {
    LeafTransport transport(&processes_, &hub, host_.get(), replica);
    TracedTransport traced(&transport, timeline_);
    body(replica, timeline_ ? static_cast<Transport&>(traced) : transport);
  });
}

}  // namespace adasum
