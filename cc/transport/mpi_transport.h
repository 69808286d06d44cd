// Messages by MPI, for any two ranks of a group.
#ifndef ADASUM_TRANSPORT_MPI_TRANSPORT_H_
#define ADASUM_TRANSPORT_MPI_TRANSPORT_H_

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
  void SendRecv(const Send& send, const Recv& recv) override;
  int64_t ShortBytes() const override { return kShortBytes; }
  bool TakesDeviceMemory(int) const override { return MpiTakesDeviceMemory(); }

  // One message each way, under way; for waiting on several transports at once.
  class Pending {
   public:
    Pending(const MpiTransport* transport, const Send& send, const Recv& recv);
    // Gives up what is not done: only when the communicator is given up with it.
    ~Pending();
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    // True when both ways are done; never waits.
    bool Progress();

   private:
    std::vector<MPI_Request> requests_;
  };

  // Contexts and lanes that fit into the smallest MPI_TAG_UB of the usual MPIs (2^28 - 1).
  static constexpr int kMaxContexts = 1 << 12;
  static constexpr int kMaxLanes = 1 << 16;

 private:
  int Tag(int lane) const { return context_ * kMaxLanes + lane; }
  void Post(const Send& send, std::vector<MPI_Request>* requests) const;
  void Post(const Recv& recv, std::vector<MPI_Request>* requests) const;

  std::shared_ptr<MpiWorld> world_;
  std::vector<int> members_;
  int context_;
  const WaitLimits& limits_;
  int rank_ = -1;
};

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_MPI_TRANSPORT_H_
