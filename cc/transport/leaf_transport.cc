#include "cc/transport/leaf_transport.h"

namespace adasum {

void LeafTransport::SendRecv(const Send& send, const Recv& recv) {
  if (!CanRead(Peer(send, recv))) return SendRecvFar(send, recv);
  NearWire().SendRecv(Near(send), Near(recv));
}

const void* LeafTransport::Exchange(const Send& send, const Recv& recv) {
  if (CanRead(Peer(send, recv))) return NearWire().Exchange(Near(send), Near(recv));
  SendRecvFar(send, recv);
  return recv.bytes;
}

void LeafTransport::SendRecvFar(const Send& send, const Recv& recv) {
  const int peer = Peer(send, recv);
  const int process = peer / num_replicas_;
  processes_->SendRecv({process, send.bytes, send.num_bytes, Lane(rank(), peer)},
                       {process, recv.bytes, recv.num_bytes, Lane(peer, rank())});
}

}  // namespace adasum
