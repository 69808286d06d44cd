#include "cc/transport/host_leaves.h"

#include "cc/transport/host_ends.h"

namespace adasum {
namespace {

// Every end maps a file of each other and has a box of 16 KiB for it: at most 512 KiB a leaf, and
// 31 descriptors. More go over MPI.
constexpr int kMostEnds = 32;

}  // namespace

std::unique_ptr<HostLeaves> HostLeaves::Make(Transport& processes, int num_replicas,
                                             const WaitControl& waits) {
  if (!processes.requires_workspace()) return nullptr;  // no two of them share memory
  std::vector<int> index_on_host(processes.size(), -1);
  int num_on_host = 0;
  for (int process = 0; process < processes.size(); ++process) {
    if (process != processes.rank() && !processes.CanRead(process)) continue;
    index_on_host[process] = num_on_host++;
  }
  auto ends = ConnectHostEnds(processes, index_on_host, {num_replicas, kMostEnds, false}, waits);
  if (ends.empty()) return nullptr;
  return std::unique_ptr<HostLeaves>(new HostLeaves(std::move(index_on_host), std::move(ends)));
}

}  // namespace adasum
