#include "cc/collectives/broadcast.h"

#include <utility>

namespace adasum {

void Broadcast(Transport& transport, int root, const std::vector<void*>& buffers,
               const std::vector<int64_t>& sizes) {
  // A binomial tree, in ranks counted from the root: rank r hears from r without its lowest bit.
  int size = transport.size();
  int rank = (transport.rank() - root + size) % size;
  auto peer = [&](int relative) { return (relative + root) % size; };
  for (size_t i = 0; i < buffers.size(); ++i) {
    void* bytes = buffers[i];
    int64_t num_bytes = sizes[i];
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

Request BroadcastRequest(BroadcastTensors tensors) {
  RequestKey key(tensors.name,
                 "broadcast from " + std::to_string(tensors.root) + " of " + tensors.signature);
  auto run = [tensors = std::move(tensors)](RequestContext& context) {
    Broadcast(context.transport, tensors.root, tensors.buffers, tensors.num_bytes);
  };
  return {std::move(key), std::move(run), nullptr};
}

}  // namespace adasum
