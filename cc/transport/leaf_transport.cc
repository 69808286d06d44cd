#include "cc/transport/leaf_transport.h"

#include <algorithm>

namespace adasum {

void LeafTransport::SendRecv(const Send& send, const Recv& recv) {
  const int peer = Peer(send, recv);
  if (CanRead(peer)) return NearWire().SendRecv(Near(send), Near(recv));
  processes_->SendRecv(Far(send, rank(), peer), Far(recv, peer, rank()));
}

bool LeafTransport::AnyCanRead(const std::vector<int>& leaves) const {
  if (host_) return Transport::AnyCanRead(leaves);
  // The leaves of a process follow each other.
  const auto pair = std::adjacent_find(leaves.begin(), leaves.end(), [this](int one, int next) {
    return numbers_.RankOf(one) == numbers_.RankOf(next);
  });
  return pair != leaves.end();
}

const void* LeafTransport::Exchange(const Send& send, const Recv& recv) {
  const int peer = Peer(send, recv);
  if (CanRead(peer)) return NearWire().Exchange(Near(send), Near(recv));
  return processes_->Exchange(Far(send, rank(), peer), Far(recv, peer, rank()));
}

}  // namespace adasum
