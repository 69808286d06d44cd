// A wire between processes on which several threads of each may talk at once, in lanes of their
// own, as leaves of several replicas do over MPI.
#ifndef ADASUM_TESTS_CC_LANE_WIRE_H_
#define ADASUM_TESTS_CC_LANE_WIRE_H_

#include <atomic>
#include <cstdint>

#include "cc/core/backoff.h"
#include "cc/core/transport.h"

namespace adasum {
namespace test {

// The memory of all lanes. Made before the processes are forked that share it.
class Lanes {
 public:
  Lanes(int num_processes, int num_lanes);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  int num_processes() const { return num_processes_; }

  // One direction between two processes in one lane: one sender and one receiver, one piece of a
  // message at a time.
  struct Box {
    static constexpr int64_t kPieceBytes = int64_t{16} << 10;
    std::atomic<uint64_t> num_put;
    std::atomic<uint64_t> num_taken;
    int64_t num_bytes;
    char payload[kPieceBytes];
  };
  // Throws Internal for a lane that there is not.
  Box& Of(int from, int to, int lane) const;

 private:
  int64_t num_boxes() const { return int64_t{num_processes_} * num_processes_ * num_lanes_; }

  const int num_processes_;
  const int num_lanes_;
  Box* boxes_;
};

class LaneWire : public Transport {
 public:
  // Both must outlive this.
  LaneWire(const Lanes* lanes, int rank, const WaitControl* waits)
      : lanes_(*lanes), rank_(rank), waits_(*waits) {}

  int rank() const override { return rank_; }
  int size() const override { return lanes_.num_processes(); }
  void SendRecv(const Send& send, const Recv& recv) override;

  std::atomic<int64_t> num_bytes{0};  // sent

 private:
  const Lanes& lanes_;
  const int rank_;
  const WaitControl& waits_;
};

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_LANE_WIRE_H_
