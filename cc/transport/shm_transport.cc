#include "cc/transport/shm_transport.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <sstream>

#include "cc/core/error.h"
#include "cc/transport/peer_bytes.h"
#include "cc/transport/shm_file.h"

namespace adasum {

namespace {

constexpr int64_t kPageBytes = 4096;

int64_t RoundUp(int64_t num_bytes, int64_t unit) { return (num_bytes + unit - 1) / unit * unit; }

uint64_t RandomToken() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

// Where in the sender's file a large message lies.
struct FileOffset {
  int64_t offset;
  int64_t file_bytes;  // or kInArena, which is a file of its own
};
constexpr int64_t kInArena = -1;

}  // namespace

ShmTransport::ShmTransport(int rank, int size, const WaitControl& waits)
    : rank_(rank),
      names_(size),
      waits_(waits),
      arena_(Arena::OfProcess().memory()),
      token_(RandomToken()),
      peers_(size) {
  std::iota(names_.begin(), names_.end(), 0);
  own_ = SharedMemory::Create(kHeaderBytes + size * ShmBox::kBytes);
  FileHeader::Of(*own_)->token = token_;
  newest_begin_ = newest_end_ = WorkspaceBegin();
  peers_[rank].process = ProcessMemory(getpid(), rank);
}

ShmTransport::~ShmTransport() = default;

std::string ShmTransport::Address() const {
  std::ostringstream out;
  out << getpid() << ' ' << own_->fd() << ' ' << token_ << ' ' << arena_.fd << ' ' << arena_.token
      << ' ' << reinterpret_cast<intptr_t>(&token_);
  return out.str();
}

void ShmTransport::Connect(const std::vector<std::string>& addresses) {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    const ShmAddress address = ParseAddress(addresses[peer], names_[peer]);
    peers_[peer].process = ProcessMemory(address.pid, names_[peer]);
    peers_[peer].memory = OpenFile(address.pid, address.file, SharedMemory::Pages::kAtOnce,
                                   WorkspaceBegin(), names_[peer]);
  }
}

bool ShmTransport::MapArenas(const std::vector<std::string>& addresses) {
  try {
    for (int rank = 0; rank < size(); ++rank) {
      const ShmAddress address = ParseAddress(addresses[rank], names_[rank]);
      if (address.arena.fd < 0) return false;
      if (rank == rank_) continue;
      peers_[rank].arena = OpenFile(address.pid, address.arena, SharedMemory::Pages::kOnUse,
                                    kHeaderBytes, names_[rank]);
    }
  } catch (const Error&) {
    return false;  // for lack of addresses, say; what is packed finds its way
  }
  return true;
}

void ShmTransport::ShareTensors(bool all_can) {
  shares_tensors_ = all_can;
  if (all_can) return;
  for (Peer& peer : peers_) peer.arena.reset();
}

bool ShmTransport::ReachProcesses(const std::vector<std::string>& addresses) const {
  try {
    for (int rank = 0; rank < size(); ++rank) {
      if (rank == rank_) continue;
      const ShmAddress address = ParseAddress(addresses[rank], names_[rank]);
      uint64_t token = 0;
      // Who may read may write. Another process under this id has no such token there.
      peers_[rank].process.Fetch({{&token, address.token_address, sizeof(token)}});
      if (token != address.file.token) return false;
    }
  } catch (const Error&) {
    return false;  // not allowed; what is packed finds its way
  }
  return true;
}

int64_t ShmTransport::Locate(const void* bytes, int64_t num_bytes) const {
  if (!Arena::OfProcess().Holds(bytes, num_bytes)) return -1;
  return static_cast<const char*>(bytes) - arena_.base;
}

void* ShmTransport::Located(int peer, int64_t location, int64_t num_bytes) {
  const SharedMemory& arena = *peers_[peer].arena;
  if (location < 0 || location > arena.size() - num_bytes) {
    RefuseBytes(names_[peer], "bytes of its arena of " + std::to_string(arena.size()),
                "an offset of " + std::to_string(location));
  }
  return arena.base() + location;
}

ShmBox* ShmTransport::Box(const SharedMemory& owner, int receiver) {
  return reinterpret_cast<ShmBox*>(owner.base() + kHeaderBytes + receiver * ShmBox::kBytes);
}

int64_t ShmTransport::WorkspaceBegin() const { return kHeaderBytes + size() * ShmBox::kBytes; }

ShmTransport::Pending::Pending(ShmTransport* transport, const Send& send, const Recv& recv)
    : transport_(transport), send_(send), recv_(recv) {}

bool ShmTransport::Pending::Progress() {
  const int64_t moved_before = sent_bytes_ + received_bytes_;
  if (sent_bytes_ < send_.num_bytes) TrySend();
  if (received_bytes_ < recv_.num_bytes) TryReceive();
  has_moved_ = sent_bytes_ + received_bytes_ > moved_before;
  return sent_bytes_ == send_.num_bytes && received_bytes_ == recv_.num_bytes;
}

void ShmTransport::Pending::TrySend() {
  const int64_t num_bytes = std::min(send_.num_bytes - sent_bytes_, ShmBox::kPieceBytes);
  const char* next = static_cast<const char*>(send_.bytes) + sent_bytes_;
  if (transport_->TryPut(send_.peer, next, num_bytes)) sent_bytes_ += num_bytes;
}

void ShmTransport::Pending::TryReceive() {
  const int64_t most = std::min(recv_.num_bytes - received_bytes_, ShmBox::kPieceBytes);
  char* next = static_cast<char*>(recv_.bytes) + received_bytes_;
  const int64_t num_bytes = transport_->TryTake(recv_.peer, next, most);
  if (num_bytes != kNone) received_bytes_ += num_bytes;
}

bool ShmTransport::TryPut(int peer, const void* bytes, int64_t num_bytes) {
  ShmBox* box = Box(*own_, peer);
  uint64_t& num_sent = peers_[peer].num_sent;
  if (box->num_taken.load(std::memory_order_acquire) != num_sent) return false;
  std::memcpy(box->payload, bytes, num_bytes);
  box->num_bytes = num_bytes;
  box->num_put.store(++num_sent, std::memory_order_release);
  return true;
}

int64_t ShmTransport::TryTake(int rank, void* bytes, int64_t most_bytes) {
  Peer& peer = peers_[rank];
  ShmBox* box = Box(*peer.memory, rank_);
  if (box->num_put.load(std::memory_order_acquire) == peer.num_received) return kNone;
  const int64_t num_bytes = box->num_bytes;
  if (num_bytes < 0 || num_bytes > most_bytes) {
    RefuseBytes(names_[rank], "at most " + std::to_string(most_bytes) + " bytes",
                std::to_string(num_bytes));
  }
  std::memcpy(bytes, box->payload, num_bytes);
  box->num_taken.store(++peer.num_received, std::memory_order_release);
  return num_bytes;
}

bool ShmTransport::HasArrived() {
  return std::any_of(peers_.begin(), peers_.end(), [this](const Peer& peer) {
    if (peer.memory == nullptr) return false;
    const ShmBox* box = Box(*peer.memory, rank_);
    return box->num_put.load(std::memory_order_acquire) != peer.num_received;
  });
}

void ShmTransport::Leave() { FileHeader::Of(*own_)->has_left.store(1, std::memory_order_release); }

bool ShmTransport::HasLeft(int peer) {
  if (processes_ != nullptr) return processes_->HasLeft(owners_[peer]);
  const SharedMemory* memory = peers_[peer].memory.get();
  return memory != nullptr &&
         FileHeader::Of(*memory)->has_left.load(std::memory_order_acquire) != 0;
}

void ShmTransport::SendRecv(const Send& send, const Recv& recv) {
  Pending pending(this, send, recv);
  Backoff backoff(waits_, "an exchange of shared memory", names_[send.peer]);
  if (send.num_bytes > 0) backoff.WatchReceiver(this, send.peer);
  if (recv.num_bytes > 0) backoff.WatchSender(this, recv.peer);
  while (!pending.Progress()) {
    if (pending.is_sent()) backoff.ForgetReceiver();
    if (pending.is_received()) backoff.ForgetSender();
    pending.has_moved() ? backoff.Restart() : backoff.Pause();
  }
}

void ShmTransport::SwapWithAll(const void* bytes, int64_t num_bytes, char* received,
                               int64_t* num_received) {
  static_assert(kSwapBytes <= ShmBox::kPieceBytes, "a message is one piece");
  // All boxes are filled before any wait, so that the last rank to come waits for nobody.
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank_ + step) % size();
    Backoff backoff(waits_, "an exchange", names_[peer]);
    backoff.WatchReceiver(this, peer);
    while (!TryPut(peer, bytes, num_bytes)) backoff.Pause();
  }
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank_ + size() - step) % size();
    Backoff backoff(waits_, "an exchange", names_[peer]);
    backoff.WatchSender(this, peer);
    for (;;) {
      num_received[peer] = TryTake(peer, received + peer * kSwapBytes, kSwapBytes);
      if (num_received[peer] != kNone) break;
      backoff.Pause();
    }
  }
}

const void* ShmTransport::Exchange(const Send& send, const Recv& recv) {
  FileOffset mine{0, own_->size()}, theirs{0, 0};
  int64_t send_bytes = 0, recv_bytes = recv.num_bytes > 0 ? sizeof(theirs) : 0;
  if (send.num_bytes > 0) {
    mine.offset = static_cast<const char*>(send.bytes) - own_->base();
    send_bytes = sizeof(mine);
    if (mine.offset < newest_begin_ || mine.offset + send.num_bytes > newest_end_) {
      mine = {shares_tensors_ ? Locate(send.bytes, send.num_bytes) : -1, kInArena};
      if (mine.offset < 0) {
        throw Error(ErrorCode::kInternal, "Expected bytes of the workspace to exchange.");
      }
    }
  }
  SendRecv({send.peer, &mine, send_bytes}, {recv.peer, &theirs, recv_bytes});
  if (recv.num_bytes == 0) return recv.bytes;
  if (theirs.file_bytes == kInArena && shares_tensors_) {
    return Located(recv.peer, theirs.offset, recv.num_bytes);
  }
  SharedMemory& memory = *peers_[recv.peer].memory;
  memory.Follow(theirs.file_bytes);
  if (theirs.offset < 0 || theirs.offset > memory.size() - recv.num_bytes) {
    RefuseBytes(names_[recv.peer], "bytes of its file of " + std::to_string(memory.size()),
                "an offset of " + std::to_string(theirs.offset));
  }
  return memory.base() + theirs.offset;
}

void* ShmTransport::Workspace(int64_t num_bytes) {
  // Before the newest workspace if it fits there, else behind it. With workspaces of one size
  // this alternates between two slots.
  int64_t needed = RoundUp(num_bytes, kPageBytes);
  bool fits_before = WorkspaceBegin() + needed <= newest_begin_;
  newest_begin_ = fits_before ? WorkspaceBegin() : newest_end_;
  newest_end_ = newest_begin_ + needed;
  own_->Grow(newest_end_);
  return own_->base() + newest_begin_;
}

}  // namespace adasum
