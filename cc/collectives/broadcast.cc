#include "cc/collectives/broadcast.h"

#include <algorithm>
#include <utility>

#include "cc/algorithms/for_each_peer.h"
#include "cc/collectives/shown_bytes.h"
#include "cc/transport/subset_transport.h"

namespace adasum {

namespace {

// A binomial tree, in ranks counted from the root: rank r hears from r without its lowest bit.
void SendDownTree(Transport& transport, int root, void* bytes, int64_t num_bytes) {
  const int size = transport.size();
  const int rank = (transport.rank() - root + size) % size;
  const auto peer = [&](int relative) { return (relative + root) % size; };
  int bit = 1;
  for (; bit < size && (rank & bit) == 0; bit *= 2) {
  }
  if (rank != 0) transport.SendRecv({0, nullptr, 0}, {peer(rank - bit), bytes, num_bytes});
  for (bit /= 2; bit > 0; bit /= 2) {
    if (rank + bit >= size) continue;
    transport.SendRecv({peer(rank + bit), bytes, num_bytes}, {0, nullptr, 0});
  }
}

void ShowToAll(Transport& transport, int root, void* bytes, int64_t num_bytes, ShownBytes& shown) {
  if (transport.rank() != root) return shown.Exchange({{}, nullptr, 0}, {root, bytes, num_bytes});
  std::vector<int> readers;
  ForEachPeer(transport, [&](int peer) { readers.push_back(peer); });
  shown.Exchange({std::move(readers), bytes, num_bytes}, {root, nullptr, 0});
}

bool Has(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

// Among some ranks of `transport`, of which this is one.
void BroadcastAmong(Transport& transport, const std::vector<int>& ranks, int root,
                    const BroadcastTensors& tensors) {
  SubsetTransport among(&transport, ranks);
  const auto first = std::find(ranks.begin(), ranks.end(), root);
  Broadcast(among, static_cast<int>(first - ranks.begin()), tensors.buffers, tensors.num_bytes);
}

// To one rank of each host, which is the root on its own, and from there inside.
void BroadcastToHosts(Transport& transport, const HostRanks& hosts,
                      const BroadcastTensors& tensors) {
  std::vector<int> speakers, host;
  int speaker = -1;  // this host's
  for (const std::vector<int>& ranks : hosts) {
    speakers.push_back(Has(ranks, tensors.root) ? tensors.root : ranks[0]);
    if (!Has(ranks, transport.rank())) continue;
    host = ranks;
    speaker = speakers.back();
  }
  if (transport.rank() == speaker) BroadcastAmong(transport, speakers, tensors.root, tensors);
  BroadcastAmong(transport, host, speaker, tensors);
}

}  // namespace

void Broadcast(Transport& transport, int root, const std::vector<void*>& buffers,
               const std::vector<int64_t>& sizes) {
  if (transport.size() == 1) return;
  const bool shares_memory = AllShareMemory(transport);
  ShownBytes shown(&transport);
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (shares_memory && sizes[i] > kOwnBytes) {
      ShowToAll(transport, root, buffers[i], sizes[i], shown);
    } else {
      SendDownTree(transport, root, buffers[i], sizes[i]);
    }
  }
}

Request BroadcastRequest(BroadcastTensors tensors) {
  RequestKey key(tensors.name,
                 "broadcast from " + std::to_string(tensors.root) + " of " + tensors.signature);
  auto run = [tensors = std::move(tensors)](RequestContext& context) {
    const HostRanks& hosts = context.topology.hosts;
    if (hosts.size() > 1 && context.transport.requires_workspace()) {
      return BroadcastToHosts(context.transport, hosts, tensors);
    }
    Broadcast(context.transport, tensors.root, tensors.buffers, tensors.num_bytes);
  };
  return {std::move(key), std::move(run), nullptr};
}

}  // namespace adasum
