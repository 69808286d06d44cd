#include "cc/collectives/broadcast.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cc/algorithms/for_each_peer.h"
#include "cc/collectives/shown_bytes.h"
#include "cc/transport/subset_transport.h"

namespace adasum {
namespace {

// A binomial tree, in ranks counted from the root: rank r hears from r without its lowest bit.
void SendMessageDownTree(Transport& transport, int root, void* bytes, int64_t num_bytes) {
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

// In messages that each come within the limit of a wait; the next one is on its way to a rank while
// that sends the last one on.
void SendDownTree(Transport& transport, int root, void* bytes, int64_t num_bytes) {
  for (int64_t done = 0; done < num_bytes; done += kMessageBytes) {
    const int64_t length = std::min(num_bytes - done, kMessageBytes);
    SendMessageDownTree(transport, root, static_cast<char*>(bytes) + done, length);
  }
}

void ShowToAll(Transport& transport, int root, void* bytes, int64_t num_bytes, ShownBytes& shown) {
  if (transport.rank() != root) return shown.Exchange({{}, nullptr, 0}, {root, bytes, num_bytes});
  std::vector<int> readers;
  ForEachPeer(transport, [&](int peer) { readers.push_back(peer); });
  shown.Exchange({std::move(readers), bytes, num_bytes}, {root, nullptr, 0});
}

// From one rank of `transport` to all others of it, buffer by buffer.
class Stage {
 public:
  Stage(Transport* transport, int root)
      : transport_(*transport),
        root_(root),
        shares_memory_(transport->size() > 1 && AllShareMemory(*transport)),
        shown_(transport) {}

  void Send(void* bytes, int64_t num_bytes) {
    if (shares_memory_ && num_bytes > kOwnBytes) {
      ShowToAll(transport_, root_, bytes, num_bytes, shown_);
    } else {
      SendDownTree(transport_, root_, bytes, num_bytes);
    }
  }

 private:
  Transport& transport_;
  const int root_;
  const bool shares_memory_;
  ShownBytes shown_;
};

// A stage among some ranks of `all`, of which this is one.
struct StageAmong {
  StageAmong(Transport* all, const std::vector<int>& ranks, int root)
      : transport(all, ranks), stage(&transport, IndexOf(root, ranks)) {}

  static int IndexOf(int rank, const std::vector<int>& ranks) {
    return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  }

  SubsetTransport transport;
  Stage stage;
};

bool Has(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

// To a leader on each host, which is the root on its own, and from there inside; buffer by buffer,
// so that nobody waits for the whole list.
void BroadcastToHosts(Transport& transport, const HostRanks& hosts,
                      const BroadcastTensors& tensors) {
  std::vector<int> leaders, host;
  int leader = -1;  // this host's
  for (const std::vector<int>& ranks : hosts) {
    leaders.push_back(Has(ranks, tensors.root) ? tensors.root : ranks[0]);
    if (!Has(ranks, transport.rank())) continue;
    host = ranks;
    leader = leaders.back();
  }
  std::optional<StageAmong> across;
  if (transport.rank() == leader) across.emplace(&transport, leaders, tensors.root);
  StageAmong inside(&transport, host, leader);
  for (size_t i = 0; i < tensors.buffers.size(); ++i) {
    if (across) across->stage.Send(tensors.buffers[i], tensors.num_bytes[i]);
    inside.stage.Send(tensors.buffers[i], tensors.num_bytes[i]);
  }
}

}  // namespace

void Broadcast(Transport& transport, int root, const std::vector<void*>& buffers,
               const std::vector<int64_t>& sizes) {
  Stage stage(&transport, root);
  for (size_t i = 0; i < buffers.size(); ++i) stage.Send(buffers[i], sizes[i]);
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
