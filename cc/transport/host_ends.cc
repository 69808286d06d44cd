#include "cc/transport/host_ends.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>

#include "cc/core/error.h"
#include "cc/transport/gather.h"

namespace adasum {
namespace {

using Ends = std::vector<std::unique_ptr<ShmTransport>>;

bool IsWanted() {
  const char* text = std::getenv("TF_ADASUM_SHARED_MEMORY");
  return text == nullptr || std::string(text) != "0";
}

// None where there are none to be had.
Ends Create(int place, int num_places, int num_ends, const WaitLimits& limits) {
  Ends ends;
  try {
    for (int k = 0; k < num_ends; ++k) {
      ends.push_back(
          std::make_unique<ShmTransport>(place * num_ends + k, num_places * num_ends, limits));
    }
    return ends;
  } catch (const Error&) {
    return {};
  }
}

// The addresses of a rank's ends, a line each.
std::string Addresses(const Ends& ends) {
  std::string lines;
  for (const auto& end : ends) lines += end->Address() + '\n';
  return lines;
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

Ends ConnectHostEnds(Transport& ranks, const std::vector<int>& place_on_host, int num_ends,
                     int most_ends, const WaitLimits& limits) {
  const int num_places = 1 + *std::max_element(place_on_host.begin(), place_on_host.end());
  Ends ends;
  if (IsWanted() && int64_t{num_places} * num_ends <= most_ends) {
    ends = Create(place_on_host[ranks.rank()], num_places, num_ends, limits);
  }
  const std::vector<std::string> all = GatherTexts(ranks, Addresses(ends));
  std::vector<std::string> on_host;  // places are in the order of the ranks
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (place_on_host[rank] < 0) continue;
    std::istringstream lines(all[rank]);
    for (std::string line; std::getline(lines, line);) on_host.push_back(line);
  }
  const bool can_connect = CanConnect(ends, on_host);
  for (const std::string& answer : GatherTexts(ranks, can_connect ? "yes" : "no")) {
    if (answer != "yes") return {};
  }
  return ends;
}

}  // namespace adasum
