#include "cc/transport/mpi_transport.h"

#include <algorithm>

#include "cc/core/error.h"

namespace adasum {
namespace {

// MPI counts in int.
constexpr int64_t kChunkBytes = int64_t{1} << 30;

// Calls post(offset, num_bytes) for every chunk of a message.
template <typename PostChunk>
void ForEachChunk(int64_t num_bytes, PostChunk post) {
  for (int64_t offset = 0; offset < num_bytes; offset += kChunkBytes) {
    post(offset, static_cast<int>(std::min(kChunkBytes, num_bytes - offset)));
  }
}

}  // namespace

MpiTransport::MpiTransport(std::shared_ptr<MpiWorld> world, std::vector<int> members, int context,
                           const WaitLimits& limits)
    : world_(std::move(world)), members_(std::move(members)), context_(context), limits_(limits) {
  auto self = std::find(members_.begin(), members_.end(), world_->rank());
  rank_ = static_cast<int>(self - members_.begin());
  if (context_ >= kMaxContexts) {
    throw Error(ErrorCode::kInvalidArgument,
                "Expected at most " + std::to_string(kMaxContexts) +
                    " communicators in the life of a world; keep those you split in place of "
                    "splitting again.");
  }
}

void MpiTransport::Post(const Recv& recv, std::vector<MPI_Request>* requests) const {
  ForEachChunk(recv.num_bytes, [&](int64_t offset, int count) {
    requests->push_back(MPI_REQUEST_NULL);
    CheckMpi(MPI_Irecv(static_cast<char*>(recv.bytes) + offset, count, MPI_BYTE,
                       members_[recv.peer], Tag(recv.lane), world_->comm(), &requests->back()),
             "MPI_Irecv");
  });
}

void MpiTransport::Post(const Send& send, std::vector<MPI_Request>* requests) const {
  ForEachChunk(send.num_bytes, [&](int64_t offset, int count) {
    requests->push_back(MPI_REQUEST_NULL);
    CheckMpi(MPI_Isend(static_cast<const char*>(send.bytes) + offset, count, MPI_BYTE,
                       members_[send.peer], Tag(send.lane), world_->comm(), &requests->back()),
             "MPI_Isend");
  });
}

MpiTransport::Pending::Pending(const MpiTransport* transport, const Send& send, const Recv& recv) {
  transport->Post(recv, &requests_);
  transport->Post(send, &requests_);
}

MpiTransport::Pending::~Pending() {
  // A send that already left can't be withdrawn, so the requests are handed back to MPI rather
  // than waited for.
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

bool MpiTransport::Pending::Progress() {
  if (requests_.empty()) return true;
  int done = 0;
  CheckMpi(
      MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE),
      "MPI_Testall");
  return done != 0;
}

void MpiTransport::SendRecv(const Send& send, const Recv& recv) {
  // Polled rather than waited for: MPI_Waitall has no limit.
  Pending pending(this, send, recv);
  Patience patience(limits_, "an MPI exchange", recv.num_bytes > 0 ? recv.peer : send.peer);
  while (!pending.Progress()) patience.Pause();
}

}  // namespace adasum
