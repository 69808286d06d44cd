// Shared memory between all leaves of one host, where processes have several replicas.
#ifndef ADASUM_TRANSPORT_HOST_LEAVES_H_
#define ADASUM_TRANSPORT_HOST_LEAVES_H_

#include <memory>
#include <utility>
#include <vector>

#include "cc/core/backoff.h"
#include "cc/core/leaf_numbers.h"
#include "cc/core/transport.h"
#include "cc/transport/shm_transport.h"

namespace adasum {

// Each leaf has an end of its own, with boxes for all other leaves of its host and a workspace: no
// two threads share one, and leaves of one process and of two are met in the same way.
class HostLeaves {
 public:
  // Collective over `processes`, with the same numbers. Null, on all ranks alike, where processes
  // of a host don't share memory, or not so much.
  static std::unique_ptr<HostLeaves> Make(Transport& processes, const LeafNumbers& numbers,
                                          const WaitControl& waits);

  // That of one replica of this process.
  ShmTransport& end(int replica) { return *ends_[replica]; }
  // Where a replica of a process is met, by its number among the ends; -1 on other hosts.
  int IndexOnHost(int process, int replica) const {
    const int first = first_on_host_[process];
    return first < 0 ? -1 : first + replica;
  }
  // As Transport::Begin, for all ends.
  void Begin() {
    for (const auto& end : ends_) end->Begin();
  }

 private:
  HostLeaves(std::vector<int> first_on_host, std::vector<std::unique_ptr<ShmTransport>> ends)
      : first_on_host_(std::move(first_on_host)), ends_(std::move(ends)) {}

  std::vector<int> first_on_host_;  // of every process; -1 on other hosts
  std::vector<std::unique_ptr<ShmTransport>> ends_;
};

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_HOST_LEAVES_H_
