// Messages by MPI, for any two ranks of a group.
#ifndef ADASUM_TRANSPORT_MPI_TRANSPORT_H_
#define ADASUM_TRANSPORT_MPI_TRANSPORT_H_

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "cc/core/backoff.h"
#include "cc/core/transport.h"
#include "cc/transport/mpi_world.h"

namespace adasum {

// A group is a list of ranks of the world and the context that each of them receives under
// (mpi_contexts.h); both together take the place of an MPI sub-communicator.
class MpiTransport : public Transport {
 public:
  struct Member {
    int world_rank;
    int context;
    bool is_on_host = false;  // of this process
  };
  // `members` are in group order, this process included; its context was taken from the world's
  // contexts, and Conclude gives it back unless something is under way. MPI is handed device memory
  // if it takes any and `wants_device_memory`. `waits` must outlive the transport.
  MpiTransport(std::shared_ptr<MpiWorld> world, std::vector<Member> members,
               const WaitControl& waits, bool wants_device_memory = true);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  // Messages above 1 GiB go as several. Lanes may be used by several threads at once.
  void SendRecv(const Send& send, const Recv& recv) override {
    Pending pending(this, send, recv, Memory::kOwnIfShort);
    Await(pending, send, recv);
  }
  const void* Exchange(const Send& send, const Recv& recv) override;
  // By one thread, and lane 0 only.
  void Post(const Send& send, const Recv& recv) override;
  int64_t MostPosted(int) const override { return kMostPosted; }
  bool HasPosted() const { return !posted_.empty(); }
  std::unique_ptr<Transfer> Start(const Send& send) override;
  std::unique_ptr<Transfer> Start(const Recv& recv) override;
  // What was posted and not exchanged, or started, is under way still.
  bool HasAbandoned() const override { return has_abandoned_ || HasPosted() || num_started_ > 0; }
  int64_t ShortBytes() const override { return kShortBytes; }
  // Of lane 0.
  bool HasArrived() override;
  bool TakesDeviceMemory(int) const override { return takes_device_memory_; }
  void Conclude(const std::vector<int>& peers, int64_t num_bytes) override;
  // Not after Conclude: what was sent then may meet another group. Whoever waits was told before.
  void Leave() override;
  bool HasLeft(int peer) override;
  int WorldRank(int peer) const override { return members_[peer].world_rank; }

  // MPI counts in int.
  static constexpr int64_t kMostBytes = int64_t{1} << 30;
  // How long the parts are of what is posted ahead for other hosts: Open MPI sends 64 KiB over TCP,
  // header included, without asking the receiver first (btl_tcp_eager_limit), and such messages end
  // in the order they were sent in. The end of a longer one is told by a message that waits behind
  // the data of all. On one host each part would be asked for, and MPI looks at thousands of them.
  static constexpr int64_t kEagerBytes = int64_t{60} << 10;

  // Where MPI finds a message: up to kOwnBytes in memory of this transport's own, or where the
  // caller has it.
  enum class Memory { kOwnIfShort, kCallers };

  // One message each way, under way; for waiting on several transports at once.
  class Pending {
   public:
    Pending(MpiTransport* transport, const Send& send, const Recv& recv, Memory memory,
            bool is_ahead = false);
    // Gives up what is not done: only when the communicator is given up with it.
    ~Pending();
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    // True when both ways are done; never waits.
    bool Progress();
    // Whether all has come, by the last Progress; it looks at what is sent only then.
    bool is_received() const { return is_received_; }

   private:
    // Null for the caller's.
    static std::unique_ptr<char[]> OwnOf(int64_t num_bytes, Memory memory);
    // Whether requests `begin` to `end` are done.
    bool Test(size_t begin, size_t end);
    void GiveUp();

    MpiTransport* transport_;
    Recv recv_;
    std::unique_ptr<char[]> sent_, received_;  // null where the caller's memory is used
    std::vector<MPI_Request> requests_;        // receives, then sends
    size_t num_receives_ = 0;
    bool is_received_ = false, is_done_ = false;
  };

 private:
  class Started;

  void Await(Pending& pending, const Send& send, const Recv& recv);
  // Of a message that rank `receiver` of the group gets.
  int Tag(int receiver, int lane) const;
  int LeaveTag(int receiver) const;
  // How long the parts are of messages between this rank and a peer.
  int64_t PartBytes(int peer, bool is_ahead) const;
  void Post(const Send& send, bool is_ahead, std::vector<MPI_Request>* requests) const;
  void Post(const Recv& recv, bool is_ahead, std::vector<MPI_Request>* requests) const;

  std::shared_ptr<MpiWorld> world_;
  std::vector<Member> members_;
  const std::unique_ptr<std::atomic<bool>[]> have_left_;  // of each member, as far as it was seen
  const WaitControl& waits_;
  const bool takes_device_memory_;
  int rank_ = -1;
  bool is_concluded_ = false, has_left_ = false;
  std::atomic<bool> has_abandoned_{false};
  std::atomic<int> num_started_{0};  // of Start, and not done
  std::deque<Pending> posted_;       // last, as they tell this transport what they abandon
};

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_MPI_TRANSPORT_H_
