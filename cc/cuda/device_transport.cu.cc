#include "cc/cuda/device_transport.cu.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "cc/core/bytes.h"
#include "cc/cuda/meeting.h"

namespace adasum {

// Where the bytes of a message lie. Plain bytes.
struct DeviceTransport::RemoteAddress {
  cudaIpcMemHandle_t buffer;  // for other processes: this, and where in it
  int64_t offset;
  const void* bytes;  // for leaves of the same process
};

DeviceTransport::DeviceTransport(Transport* wire, Stream* stream, Exchanges* exchanges,
                                 const WaitControl* waits)
    : wire_(wire),
      stream_(stream),
      exchanges_(exchanges),
      waits_(waits),
      staged_(wire, stream, &exchanges->staging, waits) {
  exchanges_->announcements.Clear();
}

// Of a meeting; of all leaves, after it. Plain bytes.
struct DeviceTransport::Outcome {
  uint64_t meeting;
  int64_t failed;  // the first leaf that failed, or kNone
  char failure[512];

  static constexpr int64_t kNone = INT64_MAX;
  static Outcome Merged(const Outcome& a, const Outcome& b) {
    Outcome merged = b.failed < a.failed ? b : a;
    merged.meeting = std::max(a.meeting, b.meeting);
    return merged;
  }
};

void DeviceTransport::Open(const std::string& leaf, LeafMemory& memory) {
  const bool is_known = exchanges_->meeting != 0 && exchanges_->num_leaves == size();
  const uint64_t known = is_known && memory.IsThere() ? exchanges_->meeting : 0;
  const uint64_t common = MergeOverLeaves(
      *wire_, known, [](uint64_t a, uint64_t b) { return a == b ? a : uint64_t{0}; });
  exchanges_->buffer.Show();
  if (common != 0) return;
  exchanges_->meeting = 0;
  exchanges_->paths.Agree(*wire_, &exchanges_->buffer);
  Outcome mine{RandomToken(), Outcome::kNone, {}};
  try {
    if (exchanges_->paths.Any(PeerPath::kStaged)) exchanges_->staging.Reserve();
    memory.Reserve();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResourceExhausted) throw;
    mine.failed = rank();
    (leaf + ": " + error.what()).copy(mine.failure, sizeof(mine.failure) - 1);
  }
  const Outcome all = MergeOverLeaves(*wire_, mine, &Outcome::Merged);
  if (all.failed != Outcome::kNone) {
    exchanges_->buffer.Hide();  // what was tried of it has been read
    exchanges_->paths.Forget();
    throw Error::Common(ErrorCode::kResourceExhausted, all.failure);
  }
  exchanges_->meeting = all.meeting;
  exchanges_->num_leaves = size();
}

const void* DeviceTransport::Exchange(const Send& send, const Recv& recv) {
  const int peer = recv.num_bytes > 0 ? recv.peer : send.peer;
  const PeerPath& path = exchanges_->paths.To(peer);
  const Event& mark = exchanges_->announcements.Take();
  if (path.kind == PeerPath::kStaged) return staged_.ExchangeBehind(mark, send, recv);
  mark.Await(*waits_, WorldRank(rank()));
  if (path.kind == PeerPath::kWire) {
    return wire_->Exchange(send, recv);  // not SendRecv, which may take it for host memory
  }
  NoteReader(peer);
  return ExchangeAddresses(path, send, recv);
}

const void* DeviceTransport::ExchangeAddresses(const PeerPath& path, const Send& send,
                                               const Recv& recv) {
  const int64_t send_bytes = send.num_bytes > 0 ? sizeof(RemoteAddress) : 0;
  const int64_t recv_bytes = recv.num_bytes > 0 ? sizeof(RemoteAddress) : 0;
  const RemoteAddress mine = send.num_bytes > 0 ? AddressOf(path, send) : RemoteAddress{};
  RemoteAddress theirs{};
  wire_->SendRecv({send.peer, &mine, send_bytes, send.lane},
                  {recv.peer, &theirs, recv_bytes, recv.lane});
  if (recv.num_bytes == 0) return recv.bytes;
  const void* there =
      path.kind == PeerPath::kThisProcess
          ? theirs.bytes
          : At(exchanges_->peer_buffers.Open(recv.peer, theirs.buffer), theirs.offset);
  if (path.is_same_device) return there;
  // Once over the link, though it will be read twice; beside the kernels of the chunks before.
  // Those that follow wait for it.
  Stream& onto = exchanges_->staging.onto;
  CheckCuda(cudaMemcpyAsync(recv.bytes, there, recv.num_bytes, cudaMemcpyDefault, onto.get()),
            "cudaMemcpyAsync");
  stream_->Follow(onto);
  return recv.bytes;
}

DeviceTransport::RemoteAddress DeviceTransport::AddressOf(const PeerPath& path,
                                                          const Send& send) const {
  RemoteAddress address{};
  address.bytes = send.bytes;
  if (path.kind == PeerPath::kThisProcess) return address;
  const ExportedBuffer& buffer = exchanges_->buffer;
  if (!buffer.Holds(send.bytes, send.num_bytes) || !buffer.has_handle()) {
    throw Error(ErrorCode::kInternal, "Expected bytes of the exported workspace for " +
                                          RankName(send.peer) +
                                          ". Received: others. TF_ADASUM_CUDA_IPC=0 does without.");
  }
  address.buffer = buffer.handle();
  address.offset = buffer.OffsetOf(send.bytes);
  return address;
}

void DeviceTransport::PairwiseBarrier(int peer) {
  AwaitKernels();
  wire_->PairwiseBarrier(peer);
}

void DeviceTransport::Finish() {
  AwaitKernels();
  // Each pair has the other in its list, and the schedule lists them in this order.
  for (int peer : readers_) PairwiseBarrier(peer);
  exchanges_->buffer.Hide();
}

void DeviceTransport::AwaitKernels() {
  Event& reached = exchanges_->staging.reached;
  reached.Record(stream_->get());
  reached.Await(*waits_, WorldRank(rank()));
}

void DeviceTransport::NoteReader(int peer) {
  if (std::find(readers_.begin(), readers_.end(), peer) == readers_.end()) {
    readers_.push_back(peer);
  }
}

}  // namespace adasum
