#include "cc/transport/host_ends.h"

#include <algorithm>
#include <string>

#include "cc/core/error.h"
#include "cc/transport/gather.h"

namespace adasum {
namespace {

using Ends = std::vector<std::unique_ptr<ShmTransport>>;

// None where there are none to be had.
Ends Create(int index, int num_ranks, int num_ends, const WaitControl& waits) {
  Ends ends;
  try {
    for (int k = 0; k < num_ends; ++k) {
      ends.push_back(
          std::make_unique<ShmTransport>(index * num_ends + k, num_ranks * num_ends, waits));
    }
    return ends;
  } catch (const Error&) {
    return {};
  }
}

bool CanConnect(const Ends& ends, const std::vector<std::string>& addresses) {
  if (ends.empty() || static_cast<int>(addresses.size()) != ends[0]->size()) return false;
  try {
    for (const auto& end : ends) end->Connect(addresses);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Ends ConnectHostEnds(Transport& ranks, const std::vector<int>& index_on_host, int num_ends,
                     int most_ends, const WaitControl& waits) {
  const int num_ranks = 1 + *std::max_element(index_on_host.begin(), index_on_host.end());
  Ends ends;
  if (int64_t{num_ranks} * num_ends <= most_ends) {
    ends = Create(index_on_host[ranks.rank()], num_ranks, num_ends, waits);
  }
  std::vector<std::string> addresses;
  for (const auto& end : ends) addresses.push_back(end->Address());
  const std::vector<std::vector<std::string>> all = GatherLists(ranks, addresses);
  std::vector<std::string> on_host;  // in the order of the ranks
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (index_on_host[rank] < 0) continue;
    on_host.insert(on_host.end(), all[rank].begin(), all[rank].end());
  }
  const bool can_connect = CanConnect(ends, on_host);
  for (const std::string& answer : GatherTexts(ranks, can_connect ? "yes" : "no")) {
    if (answer != "yes") return {};
  }
  return ends;
}

}  // namespace adasum
