// Messages by MPI, for any two ranks of a group.
#ifndef ADASUM_TRANSPORT_MPI_TRANSPORT_H_
#define ADASUM_TRANSPORT_MPI_TRANSPORT_H_

#include <atomic>
#include <memory>
#include <vector>

#include "cc/core/patience.h"
#include "cc/core/transport.h"
#include "cc/transport/mpi_world.h"

namespace adasum {

// A group is a list of ranks of the world and a context, a number that no other group with a
// common member uses; both together take the place of an MPI sub-communicator.
class MpiTransport : public Transport {
 public:
  // `members` holds the world ranks in group order, this process included. `limits` must outlive
  // the transport.
  MpiTransport(std::shared_ptr<MpiWorld> world, std::vector<int> members, int context,
               const WaitLimits& limits);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  // Messages above 1 GiB go as several. Lanes may be used by several threads at once.
  void SendRecv(const Send& send, const Recv& recv) override {
    Await(send, recv, Memory::kOwnIfShort);
  }
  const void* Exchange(const Send& send, const Recv& recv) override {
    Await(send, recv, Memory::kCallers);
    return recv.bytes;
  }
  bool HasAbandoned() const override { return has_abandoned_; }
  int64_t ShortBytes() const override { return kShortBytes; }
  bool TakesDeviceMemory(int) const override { return MpiTakesDeviceMemory(); }

  // Where MPI finds a message: up to kOwnBytes in memory of this transport's own, or where the
  // caller has it.
  enum class Memory { kOwnIfShort, kCallers };

  // One message each way, under way; for waiting on several transports at once.
  class Pending {
   public:
    Pending(MpiTransport* transport, const Send& send, const Recv& recv, Memory memory);
    // Gives up what is not done: only when the communicator is given up with it.
    ~Pending();
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    // True when both ways are done; never waits.
    bool Progress();

   private:
    // Null for the caller's.
    static std::unique_ptr<char[]> OwnOf(int64_t num_bytes, Memory memory);
    int TestAll(int* done);

    MpiTransport* transport_;
    Recv recv_;
    std::unique_ptr<char[]> sent_, received_;  // null where the caller's memory is used
    std::vector<MPI_Request> requests_;
    bool is_done_ = false;
  };

  // Contexts and lanes that fit into the smallest MPI_TAG_UB of the usual MPIs (2^28 - 1).
  static constexpr int kMaxContexts = 1 << 12;
  static constexpr int kMaxLanes = 1 << 16;

 private:
  void Await(const Send& send, const Recv& recv, Memory memory);
  int Tag(int lane) const { return context_ * kMaxLanes + lane; }
  void Post(const Send& send, std::vector<MPI_Request>* requests) const;
  void Post(const Recv& recv, std::vector<MPI_Request>* requests) const;

  std::shared_ptr<MpiWorld> world_;
  std::vector<int> members_;
  int context_;
  const WaitLimits& limits_;
  int rank_ = -1;
  std::atomic<bool> has_abandoned_{false};
};

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_MPI_TRANSPORT_H_
