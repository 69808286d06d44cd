#include "cc/transport/leaf_transport.h"

namespace adasum {

void LeafTransport::SendRecv(const Send& send, const Recv& recv) {
  int peer = Peer(send, recv);
  if (IsLocal(peer)) {
    int place = peer % num_replicas_;
    local_.SendRecv({place, send.bytes, send.num_bytes}, {place, recv.bytes, recv.num_bytes});
  } else {
    int process = peer / num_replicas_;
    processes_->SendRecv({process, send.bytes, send.num_bytes, Lane(rank(), peer)},
                         {process, recv.bytes, recv.num_bytes, Lane(peer, rank())});
  }
}

const void* LeafTransport::Exchange(const Send& send, const Recv& recv) {
  int peer = Peer(send, recv);
  if (!IsLocal(peer)) {
    SendRecv(send, recv);
    return recv.bytes;
  }
  int place = peer % num_replicas_;
  return local_.Exchange({place, send.bytes, send.num_bytes}, {place, recv.bytes, recv.num_bytes});
}

}  // namespace adasum
