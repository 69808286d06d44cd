#include "cc/transport/mpi_transport.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "cc/core/error.h"
#include "cc/transport/mpi_check.h"
#include "cc/transport/mpi_tags.h"

namespace adasum {
namespace {

// Calls post(offset, num_bytes) for every part of a message.
template <typename PostPart>
void ForEachPart(int64_t num_bytes, int64_t part_bytes, PostPart post) {
  for (int64_t offset = 0; offset < num_bytes; offset += part_bytes) {
    post(offset, static_cast<int>(std::min(part_bytes, num_bytes - offset)));
  }
}

}  // namespace

MpiTransport::MpiTransport(std::shared_ptr<MpiWorld> world, std::vector<Member> members,
                           const WaitControl& waits, bool wants_device_memory)
    : world_(std::move(world)),
      members_(std::move(members)),
      have_left_(new std::atomic<bool>[members_.size()]()),
      waits_(waits),
      takes_device_memory_(MpiTakesDeviceMemory(wants_device_memory)) {
  auto self = std::find_if(members_.begin(), members_.end(), [&](const Member& member) {
    return member.world_rank == world_->rank();
  });
  rank_ = static_cast<int>(self - members_.begin());
}

void MpiTransport::Conclude(const std::vector<int>& peers, int64_t num_bytes) {
  // What is late may come when the number has been given to another group.
  if (num_started_ > 0 || has_abandoned_) return;
  auto last = std::make_unique<LastMessages>();
  for (int peer : peers) {
    last->Expect(world_->comm(), members_[peer].world_rank, Tag(rank_, 0), num_bytes);
  }
  world_->contexts().GiveBack(members_[rank_].context, std::move(last));
  is_concluded_ = true;
}

void MpiTransport::Leave() {
  if (is_concluded_ || std::exchange(has_left_, true)) return;
  std::vector<MPI_Request> requests;
  auto own_context = std::make_unique<int>(members_[rank_].context);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    requests.push_back(MPI_REQUEST_NULL);
    MPI_Isend(own_context.get(), 1, MPI_INT, members_[peer].world_rank, LeaveTag(peer),
              world_->comm(), &requests.back());
  }
  // So little goes at once, but for the connection that it may have to wait for.
  constexpr auto kLimit = std::chrono::seconds(2);
  const auto end = std::chrono::steady_clock::now() + kLimit;
  int done = 0;
  while (MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                     MPI_STATUSES_IGNORE) == MPI_SUCCESS &&
         done == 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  for (MPI_Request& request : requests) {
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
  if (done == 0) own_context.release();  // MPI may still read it
}

bool MpiTransport::HasLeft(int peer) {
  if (have_left_[peer]) return true;
  int is_there = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  // Taken out in the same step: several threads may look.
  const int code = MPI_Improbe(members_[peer].world_rank, LeaveTag(rank_), world_->comm(),
                               &is_there, &message, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS || is_there == 0) return have_left_[peer];
  int context = -1;
  MPI_Mrecv(&context, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
  // It may be of a group that had this rank's number before, and not the peer's: a rank that leaves
  // so never uses its own again.
  if (context == members_[peer].context) have_left_[peer] = true;
  return have_left_[peer];
}

int MpiTransport::Tag(int receiver, int lane) const {
  if (lane >= kMaxLanes) {
    throw Error(ErrorCode::kInternal, "Expected a lane below " + std::to_string(kMaxLanes) +
                                          ". Received: " + std::to_string(lane));
  }
  return TagOf(members_[receiver].context, lane);
}

int MpiTransport::LeaveTag(int receiver) const {
  return TagOf(members_[receiver].context, kLeaveLane);
}

int64_t MpiTransport::PartBytes(int peer, bool is_ahead) const {
  return is_ahead && !members_[peer].is_on_host ? kEagerBytes : kMostBytes;
}

void MpiTransport::Post(const Recv& recv, bool is_ahead, std::vector<MPI_Request>* requests) const {
  ForEachPart(recv.num_bytes, PartBytes(recv.peer, is_ahead), [&](int64_t offset, int count) {
    requests->push_back(MPI_REQUEST_NULL);
    CheckMpi(MPI_Irecv(static_cast<char*>(recv.bytes) + offset, count, MPI_BYTE,
                       members_[recv.peer].world_rank, Tag(rank_, recv.lane), world_->comm(),
                       &requests->back()),
             "MPI_Irecv");
  });
}

void MpiTransport::Post(const Send& send, bool is_ahead, std::vector<MPI_Request>* requests) const {
  ForEachPart(send.num_bytes, PartBytes(send.peer, is_ahead), [&](int64_t offset, int count) {
    requests->push_back(MPI_REQUEST_NULL);
    CheckMpi(MPI_Isend(static_cast<const char*>(send.bytes) + offset, count, MPI_BYTE,
                       members_[send.peer].world_rank, Tag(send.peer, send.lane), world_->comm(),
                       &requests->back()),
             "MPI_Isend");
  });
}

std::unique_ptr<char[]> MpiTransport::Pending::OwnOf(int64_t num_bytes, Memory memory) {
  if (num_bytes == 0 || num_bytes > kOwnBytes || memory == Memory::kCallers) return nullptr;
  return std::unique_ptr<char[]>(new char[num_bytes]);
}

MpiTransport::Pending::Pending(MpiTransport* transport, const Send& send, const Recv& recv,
                               Memory memory, bool is_ahead)
    : transport_(transport),
      recv_(recv),
      sent_(OwnOf(send.num_bytes, memory)),
      received_(OwnOf(recv.num_bytes, memory)) {
  Send posted_send = send;
  Recv posted_recv = recv;
  if (sent_) posted_send.bytes = std::memcpy(sent_.get(), send.bytes, send.num_bytes);
  if (received_) posted_recv.bytes = received_.get();
  try {
    transport->Post(posted_recv, is_ahead, &requests_);
    num_receives_ = requests_.size();
    transport->Post(posted_send, is_ahead, &requests_);
  } catch (...) {
    GiveUp();  // what was posted before
    throw;
  }
}

MpiTransport::Pending::~Pending() {
  if (!is_done_) GiveUp();
}

void MpiTransport::Pending::GiveUp() {
  for (MPI_Request& request : requests_) {
    if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
  }
  int done = 0;
  const int code =
      MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE);
  if (code == MPI_SUCCESS && done != 0) return;
  // What has begun can't be withdrawn: the requests are handed back to MPI rather than waited for,
  // and what they may touch stays.
  for (MPI_Request& request : requests_) {
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
  sent_.release();
  received_.release();
  transport_->has_abandoned_ = true;
}

bool MpiTransport::Pending::Test(size_t begin, size_t end) {
  int done = 1;
  if (begin < end) {
    CheckMpi(MPI_Testall(static_cast<int>(end - begin), requests_.data() + begin, &done,
                         MPI_STATUSES_IGNORE),
             "MPI_Testall");
  }
  return done != 0;
}

bool MpiTransport::Pending::Progress() {
  is_received_ = is_received_ || Test(0, num_receives_);
  if (is_done_ || !is_received_ || !Test(num_receives_, requests_.size())) return is_done_;
  if (received_) std::memcpy(recv_.bytes, received_.get(), recv_.num_bytes);
  is_done_ = true;
  return true;
}

bool MpiTransport::HasArrived() {
  int has_arrived = 0;
  const int error =
      MPI_Iprobe(MPI_ANY_SOURCE, Tag(rank_, 0), world_->comm(), &has_arrived, MPI_STATUS_IGNORE);
  // Where MPI fails, whoever receives hears why.
  return error != MPI_SUCCESS || has_arrived != 0;
}

void MpiTransport::Post(const Send& send, const Recv& recv) {
  posted_.emplace_back(this, send, recv, Memory::kCallers, /*is_ahead=*/true);
}

class MpiTransport::Started : public Transfer {
 public:
  Started(MpiTransport* transport, const Send& send, const Recv& recv)
      : transport_(transport), pending_(std::in_place, transport, send, recv, Memory::kCallers) {
    ++transport_->num_started_;
  }
  ~Started() override {
    if (pending_) End();
  }
  bool Progress() override {
    if (pending_ && pending_->Progress()) End();
    return !pending_;
  }

 private:
  void End() {
    pending_.reset();
    --transport_->num_started_;
  }

  MpiTransport* transport_;
  std::optional<Pending> pending_;  // until it is done
};

std::unique_ptr<Transfer> MpiTransport::Start(const Send& send) {
  return std::make_unique<Started>(this, send, Recv{send.peer, nullptr, 0});
}

std::unique_ptr<Transfer> MpiTransport::Start(const Recv& recv) {
  return std::make_unique<Started>(this, Send{recv.peer, nullptr, 0}, recv);
}

const void* MpiTransport::Exchange(const Send& send, const Recv& recv) {
  if (HasPosted()) {
    Await(posted_.front(), send, recv);
    posted_.pop_front();
  } else {
    Pending pending(this, send, recv, Memory::kCallers);
    Await(pending, send, recv);
  }
  return recv.bytes;
}

void MpiTransport::Await(Pending& pending, const Send& send, const Recv& recv) {
  // Polled rather than waited for: MPI_Waitall has no limit.
  Backoff backoff(waits_, "an MPI exchange", WorldRank(send.peer));
  if (recv.num_bytes > 0) backoff.WatchSender(this, recv.peer);
  while (!pending.Progress()) {
    if (pending.is_received()) {
      backoff.ForgetSender();
      backoff.WatchReceiver(this, send.peer);
    }
    backoff.Pause();
  }
}

}  // namespace adasum
