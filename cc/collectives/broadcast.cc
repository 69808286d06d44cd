#include "cc/collectives/broadcast.h"

#include <utility>

namespace adasum {
namespace {

void RunBroadcast(const BroadcastTensors& tensors, Transport& transport) {
  // A binomial tree, in ranks counted from the root: rank r hears from r without its lowest bit.
  int size = transport.size();
  int rank = (transport.rank() - tensors.root + size) % size;
  auto peer = [&](int relative) { return (relative + tensors.root) % size; };
  for (size_t i = 0; i < tensors.buffers.size(); ++i) {
    void* bytes = tensors.buffers[i];
    int64_t num_bytes = tensors.num_bytes[i];
    int bit = 1;
    for (; bit < size && (rank & bit) == 0; bit *= 2) {
    }
    if (rank != 0) transport.SendRecv({0, nullptr, 0}, {peer(rank - bit), bytes, num_bytes});
    for (bit /= 2; bit > 0; bit /= 2) {
      if (rank + bit < size) {
        transport.SendRecv({peer(rank + bit), bytes, num_bytes}, {0, nullptr, 0});
      }
    }
  }
}

}  // namespace

Request BroadcastRequest(BroadcastTensors tensors) {
  RequestKey key(tensors.name,
                 "broadcast from " + std::to_string(tensors.root) + " of " + tensors.signature);
  auto run = [tensors = std::move(tensors)](RequestContext& context) {
    RunBroadcast(tensors, context.transport);
  };
  return {std::move(key), std::move(run), nullptr};
}

}  // namespace adasum
