#include "cc/engine/topology.h"

#include <algorithm>
#include <string>

#include "cc/core/error.h"

namespace adasum {

const std::vector<int>& HostOf(int rank, const HostRanks& hosts) {
  for (const std::vector<int>& ranks : hosts) {
    if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) return ranks;
  }
  throw Error(ErrorCode::kInternal,
              "Expected the hosts of all ranks. Received: none of rank " + std::to_string(rank));
}

}  // namespace adasum
