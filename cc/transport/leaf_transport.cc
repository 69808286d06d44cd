#include "cc/transport/leaf_transport.h"

namespace adasum {

void LeafTransport::SendRecv(const Send& send, const Recv& recv) {
  const int peer = Peer(send, recv);
  if (CanRead(peer)) return NearWire().SendRecv(Near(send), Near(recv));
  processes_->SendRecv(Far(send, rank(), peer), Far(recv, peer, rank()));
}

const void* LeafTransport::Exchange(const Send& send, const Recv& recv) {
  const int peer = Peer(send, recv);
  if (CanRead(peer)) return NearWire().Exchange(Near(send), Near(recv));
  return processes_->Exchange(Far(send, rank(), peer), Far(recv, peer, rank()));
}

}  // namespace adasum
