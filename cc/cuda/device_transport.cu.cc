#include "cc/cuda/device_transport.cu.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "cc/core/bytes.h"

namespace adasum {

// Where the bytes of a message lie. Plain bytes.
struct DeviceTransport::Place {
  cudaIpcMemHandle_t buffer;  // for other processes: this, and where in it
  int64_t offset;
  const void* bytes;  // for leaves of the same process
};

DeviceTransport::DeviceTransport(Transport* wire, Stream* stream, Exchanges* exchanges,
                                 const WaitLimits* limits)
    : wire_(wire),
      stream_(stream),
      exchanges_(exchanges),
      limits_(limits),
      staged_(wire, stream, &exchanges->staging, limits) {
  exchanges_->announcements.Clear();
  exchanges_->buffer.Show();
  exchanges_->paths.Agree(*wire_, &exchanges_->buffer);
}

const void* DeviceTransport::Exchange(const Send& send, const Recv& recv) {
  const int peer = recv.num_bytes > 0 ? recv.peer : send.peer;
  const PeerPath& path = exchanges_->paths.To(peer);
  const Event& mark = exchanges_->announcements.Take();
  if (path.kind == PeerPath::kStaged) return staged_.ExchangeBehind(mark, send, recv);
  mark.Await(*limits_, rank());
  if (path.kind == PeerPath::kWire) {
    return wire_->Exchange(send, recv);  // not SendRecv, which may take it for host memory
  }
  NoteReader(peer);
  return ExchangePlaces(path, send, recv);
}

const void* DeviceTransport::ExchangePlaces(const PeerPath& path, const Send& send,
                                            const Recv& recv) {
  const int64_t send_bytes = send.num_bytes > 0 ? sizeof(Place) : 0;
  const int64_t recv_bytes = recv.num_bytes > 0 ? sizeof(Place) : 0;
  const Place mine = send.num_bytes > 0 ? PlaceOf(path, send) : Place{};
  Place theirs{};
  wire_->SendRecv({send.peer, &mine, send_bytes, send.lane},
                  {recv.peer, &theirs, recv_bytes, recv.lane});
  if (recv.num_bytes == 0) return recv.bytes;
  const void* there =
      path.kind == PeerPath::kThisProcess
          ? theirs.bytes
          : At(exchanges_->peer_buffers.Open(recv.peer, theirs.buffer), theirs.offset);
  if (path.is_same_device) return there;
  // Once over the link, though it will be read twice; beside the kernels of the steps before. Those
  // that follow wait for it.
  Stream& onto = exchanges_->staging.onto;
  CheckCuda(cudaMemcpyAsync(recv.bytes, there, recv.num_bytes, cudaMemcpyDefault, onto.get()),
            "cudaMemcpyAsync");
  stream_->Follow(onto);
  return recv.bytes;
}

DeviceTransport::Place DeviceTransport::PlaceOf(const PeerPath& path, const Send& send) const {
  Place place{};
  place.bytes = send.bytes;
  if (path.kind == PeerPath::kThisProcess) return place;
  const ExportedBuffer& buffer = exchanges_->buffer;
  if (!buffer.Holds(send.bytes, send.num_bytes) || !buffer.has_handle()) {
    throw Error(ErrorCode::kInternal, "Expected bytes of the exported workspace for rank " +
                                          std::to_string(send.peer) +
                                          ". Received: others. TF_ADASUM_CUDA_IPC=0 does without.");
  }
  place.buffer = buffer.handle();
  place.offset = buffer.OffsetOf(send.bytes);
  return place;
}

void DeviceTransport::Meet(int peer) {
  AwaitKernels();
  wire_->Meet(peer);
}

void DeviceTransport::Finish() {
  AwaitKernels();
  // Each pair has the other in its list, and the traversal met them in this order.
  for (int peer : readers_) Meet(peer);
  exchanges_->buffer.Hide();
}

void DeviceTransport::AwaitKernels() {
  Event& reached = exchanges_->staging.reached;
  reached.Record(stream_->get());
  reached.Await(*limits_, rank());
}

void DeviceTransport::NoteReader(int peer) {
  if (std::find(readers_.begin(), readers_.end(), peer) == readers_.end()) {
    readers_.push_back(peer);
  }
}

}  // namespace adasum
