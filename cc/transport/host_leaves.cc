#include "cc/transport/host_leaves.h"

#include "cc/transport/host_ends.h"

namespace adasum {
namespace {

// Every end maps a file of each other and has a box of 16 KiB for it: at most 512 KiB a leaf, and
// 31 descriptors. More go over MPI.
constexpr int kMostEnds = 32;

}  // namespace

std::unique_ptr<HostLeaves> HostLeaves::Make(Transport& processes, const LeafNumbers& numbers,
                                             const WaitControl& waits) {
  if (!processes.requires_workspace()) return nullptr;  // no two of them share memory
  std::vector<int> first_on_host(processes.size(), -1);
  int num_on_host = 0;
  for (int process = 0; process < processes.size(); ++process) {
    if (process != processes.rank() && !processes.CanRead(process)) continue;
    first_on_host[process] = num_on_host;
    num_on_host += numbers.CountOf(process);
  }
  const HostEnds wanted{numbers.CountOf(processes.rank()), num_on_host, kMostEnds, false, false};
  auto ends = ConnectHostEnds(processes, first_on_host, wanted, waits);
  if (ends.empty()) return nullptr;
  std::vector<int> owners;
  for (int process = 0; process < processes.size(); ++process) {
    if (first_on_host[process] >= 0) {
      owners.insert(owners.end(), numbers.CountOf(process), process);
    }
  }
  for (const auto& end : ends) end->LeaveWith(&processes, owners);
  return std::unique_ptr<HostLeaves>(new HostLeaves(std::move(first_on_host), std::move(ends)));
}

}  // namespace adasum
