#include "tests/cc/lane_wire.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "cc/core/bytes.h"
#include "cc/core/error.h"

namespace adasum {
namespace test {
namespace {

// Both return how many bytes went on: none where the other side has to come first.
int64_t TrySend(Lanes::Box* box, const char* bytes, int64_t num_left) {
  const uint64_t num_put = box->num_put.load(std::memory_order_relaxed);
  if (num_left == 0 || box->num_taken.load(std::memory_order_acquire) != num_put) return 0;
  box->num_bytes = std::min(num_left, Lanes::Box::kPieceBytes);
  std::memcpy(box->payload, bytes, box->num_bytes);
  const int64_t num_bytes = box->num_bytes;
  box->num_put.store(num_put + 1, std::memory_order_release);
  return num_bytes;
}

int64_t TryReceive(Lanes::Box* box, char* bytes, int64_t num_left) {
  const uint64_t num_taken = box->num_taken.load(std::memory_order_relaxed);
  if (num_left == 0 || box->num_put.load(std::memory_order_acquire) == num_taken) return 0;
  const int64_t num_bytes = box->num_bytes;
  if (num_bytes > num_left) {
    throw Error(ErrorCode::kInternal, "Expected at most " + std::to_string(num_left) +
                                          " bytes. Received: " + std::to_string(num_bytes));
  }
  std::memcpy(bytes, box->payload, num_bytes);
  box->num_taken.store(num_taken + 1, std::memory_order_release);
  return num_bytes;
}

}  // namespace

Lanes::Lanes(int num_processes, int num_lanes)
    : num_processes_(num_processes), num_lanes_(num_lanes) {
  void* shared = mmap(nullptr, num_boxes() * sizeof(Box), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw Error(ErrorCode::kInternal, "mmap failed");
  boxes_ = static_cast<Box*>(shared);  // zeros: nothing put, nothing taken
}

Lanes::~Lanes() { munmap(boxes_, num_boxes() * sizeof(Box)); }

Lanes::Box& Lanes::Of(int from, int to, int lane) const {
  if (lane < 0 || lane >= num_lanes_) {
    throw Error(ErrorCode::kInternal, "Expected a lane below " + std::to_string(num_lanes_) +
                                          ". Received: " + std::to_string(lane));
  }
  return boxes_[(int64_t{from} * num_processes_ + to) * num_lanes_ + lane];
}

void LaneWire::SendRecv(const Send& send, const Recv& recv) {
  num_bytes += send.num_bytes;
  int64_t num_sent = 0, num_received = 0;
  Backoff backoff(waits_, "a lane", recv.num_bytes > 0 ? recv.peer : send.peer);
  for (;;) {
    if (num_sent < send.num_bytes) {
      num_sent += TrySend(&lanes_.Of(rank_, send.peer, send.lane), At(send.bytes, num_sent),
                          send.num_bytes - num_sent);
    }
    if (num_received < recv.num_bytes) {
      num_received += TryReceive(&lanes_.Of(recv.peer, rank_, recv.lane),
                                 At(recv.bytes, num_received), recv.num_bytes - num_received);
    }
    if (num_sent == send.num_bytes && num_received == recv.num_bytes) return;
    backoff.Pause();
  }
}

}  // namespace test
}  // namespace adasum
