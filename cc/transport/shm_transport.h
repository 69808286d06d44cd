// Ranks of one host that read each other's memory.
//
// Each rank owns one shared file: a box for every peer, through which small messages go, and
// behind them the workspace, from which peers read large ones in place.
#ifndef ADASUM_TRANSPORT_SHM_TRANSPORT_H_
#define ADASUM_TRANSPORT_SHM_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/arena/arena.h"
#include "cc/core/backoff.h"
#include "cc/core/transport.h"
#include "cc/transport/process_memory.h"
#include "cc/transport/shared_memory.h"

namespace adasum {

struct ShmBox;

class ShmTransport : public Transport {
 public:
  // Makes this rank's file. `waits` must outlive the transport.
  ShmTransport(int rank, int size, const WaitControl& waits);
  ~ShmTransport() override;

  // What peers need to Connect.
  std::string Address() const;
  // Opens the files of all ranks; addresses[rank()] is ignored. Throws Internal if one can't be
  // opened or is not what its address says.
  void Connect(const std::vector<std::string>& addresses);
  // What errors call the ranks, where these are not all of the job.
  void NameRanks(std::vector<int> names) { names_ = std::move(names); }
  int WorldRank(int peer) const override { return names_[peer]; }
  // Where these are leaves of processes, each of rank `owners`[leaf] there: they leave with those.
  void LeaveWith(Transport* processes, std::vector<int> owners) {
    processes_ = processes;
    owners_ = std::move(owners);
  }
  // Maps the arenas of all ranks. Returns false if one has none, or it can't be mapped; the ranks
  // share tensors if all of them say so.
  bool MapArenas(const std::vector<std::string>& addresses);
  void ShareTensors(bool all_can);
  // Tries to read the memory of all ranks' processes. Returns false if it can't of one; the ranks
  // copy from and to each other's tensors if all of them can.
  bool ReachProcesses(const std::vector<std::string>& addresses) const;
  void CopyTensors() { copies_tensors_ = true; }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  void SendRecv(const Send& send, const Recv& recv) override;
  // Sends an address only; `send.bytes` must lie in this rank's newest workspace, or, where ranks
  // share tensors, in its arena.
  const void* Exchange(const Send& send, const Recv& recv) override;
  bool CanRead(int) const override { return true; }
  int64_t ShortBytes() const override { return kShortBytes; }
  int64_t SwapBytes() const override {
    return size() > 1 && size() <= kMostInSwap ? kSwapBytes : 0;
  }
  void SwapWithAll(const void* bytes, int64_t num_bytes, char* received,
                   int64_t* num_received) override;
  bool HasArrived() override;
  void Leave() override;
  bool HasLeft(int peer) override;
  int64_t ChunkBytes(int) const override { return kCachedBytes; }
  bool requires_workspace() const override { return true; }
  bool SharesTensors(int) const override { return shares_tensors_; }
  int64_t Locate(const void* bytes, int64_t num_bytes) const override;
  void* Located(int peer, int64_t location, int64_t num_bytes) override;
  bool CopiesTensors(int) const override { return copies_tensors_; }
  // What the system refuses to this process it refuses to all.
  bool LetsCopy(const std::vector<const void*>& tensors) const override {
    return copies_tensors_ && peers_[rank_].process.HasPages(tensors);
  }
  void Fetch(int peer, const std::vector<RemoteBytes>& parts) override {
    peers_[peer].process.Fetch(parts);
  }
  void Store(int peer, const std::vector<RemoteBytes>& parts) override {
    peers_[peer].process.Store(parts);
  }
  void LendTensors(bool are_lent) override { has_lent_ = are_lent; }
  bool HasAbandoned() const override { return has_lent_; }
  // Workspaces start again at the same offset, which the cache may still have.
  void Begin() override { newest_begin_ = newest_end_ = WorkspaceBegin(); }
  // Two calls in a row return memory that does not overlap, so that peers may go on reading one
  // workspace while the next is filled.
  void* Workspace(int64_t num_bytes) override;

  // One message each way, under way; for waiting on several transports at once.
  class Pending {
   public:
    Pending(ShmTransport* transport, const Send& send, const Recv& recv);
    // Moves what can be moved without waiting; true when both ways are done.
    bool Progress();
    // Whether the last Progress has moved anything.
    bool has_moved() const { return has_moved_; }
    // Whether the peer has room for all, or has taken it.
    bool is_sent() const { return sent_bytes_ == send_.num_bytes; }
    bool is_received() const { return received_bytes_ == recv_.num_bytes; }

   private:
    void TrySend();
    void TryReceive();

    ShmTransport* transport_;
    Send send_;
    Recv recv_;
    int64_t sent_bytes_ = 0;
    int64_t received_bytes_ = 0;
    bool has_moved_ = false;
  };

 private:
  // Among more ranks rounds of few messages are quicker than a message to each.
  static constexpr int kMostInSwap = 8;

  // Sequence numbers of the pieces that went through a pair of boxes.
  struct Peer {
    std::unique_ptr<SharedMemory> memory;  // null for this rank itself
    std::unique_ptr<SharedMemory> arena;   // null where tensors are not shared
    ProcessMemory process{0, -1};
    uint64_t num_sent = 0;
    uint64_t num_received = 0;
  };

  // The box in `owner`'s memory through which `owner` sends to `receiver`.
  static ShmBox* Box(const SharedMemory& owner, int receiver);
  // Puts a piece into the box for the peer; false while the one before it is there.
  bool TryPut(int peer, const void* bytes, int64_t num_bytes);
  // Takes a piece of at most so many bytes out of that rank's box; returns its length, or kNone.
  int64_t TryTake(int rank, void* bytes, int64_t most_bytes);
  static constexpr int64_t kNone = -1;
  int64_t WorkspaceBegin() const;
  const int rank_;
  std::vector<int> names_;
  Transport* processes_ = nullptr;
  std::vector<int> owners_;
  const WaitControl& waits_;
  const ArenaMemory arena_;  // of this process, as it was told to peers
  const uint64_t token_;     // tells our file from another one under a reused process id
  std::unique_ptr<SharedMemory> own_;
  std::vector<Peer> peers_;
  bool shares_tensors_ = false;
  bool copies_tensors_ = false;
  bool has_lent_ = false;
  // The newest workspace, as offsets into the file.
  int64_t newest_begin_;
  int64_t newest_end_;
};

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_SHM_TRANSPORT_H_
