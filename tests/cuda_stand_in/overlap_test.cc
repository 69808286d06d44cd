// Kernels work while the exchange of the next chunk is under way. Neither may wait for the other:
// here the kernels of a chunk do not end before the next exchange has begun, and that exchange does
// not end before they have. Two processes, each with a device that does everything at once.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "tests/cc/check.h"
#include "tests/cc/processes.h"
#include "tests/cuda_stand_in/launches.h"
#include "tests/gpu/device_wire.cu.h"
#include "tests/gpu/requests.cu.h"

namespace adasum {
namespace {

using cuda_stand_in::Kernel;
using test::Board;
using test::GpuRequest;
using test::GpuSide;
using test::LeafValues;

constexpr int kLimitSeconds = 120;
constexpr int64_t kDeviceChunkBytes = int64_t{64} << 10;
constexpr int64_t kChunks = 8;

// Whose turn it is, of the kernels and exchanges on the way there (moments) or back (combine).
class Phase {
 public:
  void Launched() { Note(&num_launched_); }
  void Ended() { Note(&num_ended_); }
  // The kernel of chunk k goes on when exchange `lead` + k has begun.
  void HoldKernel(int64_t lead) {
    Await("an exchange beside a kernel", [=] {
      const int64_t next = num_running_ + lead;
      return next >= kChunks || num_begun_ > next;
    });
    Note(&num_running_);
  }
  void ExchangeBegins() { Note(&num_begun_); }
  // Exchange k is over when so many kernels more or fewer have ended.
  void HoldExchange(int64_t more) {
    Await("a kernel beside an exchange",
          [=] { return num_ended_ >= std::min(num_begun_ - 1 + more, kChunks); });
  }
  int64_t num_launched() const { return num_launched_; }
  int64_t num_begun() const { return num_begun_; }

 private:
  void Note(int64_t* count) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++*count;
    changed_.notify_all();
  }
  template <typename Condition>
  void Await(const char* what, Condition condition) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (has_failed_) return;  // once is enough
    if (changed_.wait_for(lock, std::chrono::seconds(10), condition)) return;
    has_failed_ = true;
    test::Fail(__FILE__, __LINE__, std::string("waited in vain for ") + what);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t num_launched_ = 0, num_running_ = 0, num_ended_ = 0, num_begun_ = 0;
  bool has_failed_ = false;
};

struct Phases {
  Phase there, back;
  std::atomic<bool> is_held{false};
  Phase* Of(Kernel kernel) {
    if (!is_held) return nullptr;
    if (kernel == Kernel::kMoments) return &there;
    return kernel == Kernel::kCombine ? &back : nullptr;
  }
};

void Watch(Phases* phases) {
  cuda_stand_in::SetWatch({[=](Kernel kernel) {
                             if (Phase* phase = phases->Of(kernel)) phase->Launched();
                           },
                           [=](Kernel kernel) {
                             // Moments until the next exchange begins; results, which have to be
                             // there before theirs, until that of the one before does.
                             if (Phase* phase = phases->Of(kernel)) {
                               phase->HoldKernel(kernel == Kernel::kMoments ? 1 : -1);
                             }
                           },
                           [=](Kernel kernel) {
                             if (Phase* phase = phases->Of(kernel)) phase->Ended();
                           }});
}

// The wire of the host. A message of so many bytes is a chunk: as many there, then as many back.
class HoldingWire : public Transport {
 public:
  HoldingWire(std::unique_ptr<Transport> inner, bool takes_device_memory, Phases* phases)
      : inner_(std::move(inner)),
        device_wire_(inner_.get()),
        takes_device_memory_(takes_device_memory),
        phases_(*phases) {}
  bool TakesDeviceMemory(int) const override { return takes_device_memory_; }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void SendRecv(const Send& send, const Recv& recv) override {
    if (!phases_.is_held || send.num_bytes != kDeviceChunkBytes)
      return device_wire_.SendRecv(send, recv);
    const bool is_there = phases_.there.num_begun() < kChunks;
    Phase& phase = is_there ? phases_.there : phases_.back;
    phase.ExchangeBegins();
    // Beside exchange k: the moments of chunk k - 1, the combination of chunk k + 1.
    phase.HoldExchange(is_there ? 0 : 2);
    device_wire_.SendRecv(send, recv);
  }

 private:
  std::unique_ptr<Transport> inner_;
  test::DeviceWire device_wire_;  // host memory it passes on
  const bool takes_device_memory_;
  Phases& phases_;
};

void CheckOverlap(int rank, Board* board, bool takes_device_memory, const GpuRequest& request) {
  CudaOptions options;
  options.ipc = false;
  options.chunk_bytes = kDeviceChunkBytes;
  Phases phases;
  Watch(&phases);
  auto waits = std::make_unique<WaitControl>();
  auto wire =
      std::make_unique<HoldingWire>(Connect(rank, 2, board, *waits), takes_device_memory, &phases);
  Communicator communicator(std::move(waits), std::move(wire), Topology{rank, 2});
  std::mt19937 random(1);
  const LeafValues leaves = Draw(request, 2, &random);
  std::shared_ptr<DeviceState> state = MakeCudaState(0, options);
  // The first makes the buffers, which waits for the device.
  for (bool is_held : {false, true}) {
    phases.is_held = is_held;
    GpuSide side(request, {leaves[rank]});
    side.Start(communicator, *state);
    CHECK_EQ(test::Describe(side.Await()), "");
    side.Check(leaves);
  }
  CHECK_EQ(phases.there.num_begun(), kChunks);
  CHECK_EQ(phases.back.num_begun(), kChunks);
  // One launch for each chunk, however many tensors it has parts of.
  CHECK_EQ(phases.there.num_launched(), kChunks);
  CHECK_EQ(phases.back.num_launched(), kChunks);
}

void CheckLists(bool takes_device_memory) {
  const int64_t count = 2 * kChunks * kDeviceChunkBytes / 4;
  std::vector<int64_t> many(1024, count / 1024);
  for (const auto& counts : {std::vector<int64_t>{count}, many}) {
    test::ForEachProcess(2, kLimitSeconds, [&](int rank, Board* board) {
      CheckOverlap(rank, board, takes_device_memory, {DType::kFloat32, "adasum", false, counts});
    });
  }
}

TEST(KernelsBesideTheNextStagedExchange) { CheckLists(false); }
TEST(KernelsBesideTheNextExchangeOfDeviceMemory) { CheckLists(true); }

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
