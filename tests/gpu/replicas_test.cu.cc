// Whole allreduces of tensors on GPUs between processes that have several replicas each: leaves of
// one process read each other's memory at its addresses, those of others by CUDA IPC, or staged, or
// over a wire that takes device memory. Every process is forked before it calls CUDA.

#include <cuda_runtime.h>

#include <cstdlib>
#include <string>

#include "tests/cc/check.h"
#include "tests/cc/lane_wire.h"
#include "tests/cc/processes.h"
#include "tests/gpu/device_wire.cu.h"
#include "tests/gpu/requests.cu.h"

namespace adasum {
namespace {

using test::Board;
using test::DeviceWire;
using test::GpuRequest;
using test::GpuSide;
using test::Lanes;
using test::LaneWire;
using test::LeafValues;
using test::Scope;

constexpr int kLimitSeconds = 120;
const std::vector<int64_t> kCounts = {1, 0, 1000, 65, 200003, 7};

struct World {
  int num_processes;
  int num_replicas;  // of each process
};
constexpr World kWorlds[] = {{2, 2}, {3, 2}, {2, 3}};

enum class Way { kIpc, kStaged, kWire };
enum class Devices { kOne, kAll };

// One process with its communicator. All processes draw all leaves.
class Process {
 public:
  Process(World world, const Lanes* lanes, int rank, Board* board, Way way, Devices devices,
          const CudaOptions& options)
      : world_(world), rank_(rank), board_(board), way_(way) {
    int num_devices = 0;
    CheckCuda(cudaGetDeviceCount(&num_devices), "cudaGetDeviceCount");
    if (num_devices == 0) {
      throw Error(ErrorCode::kInternal, "Expected a CUDA device. Received: none.");
    }
    device_ = devices == Devices::kOne ? 0 : rank % num_devices;
    state_ = MakeCudaState(device_, options);
    auto waits = std::make_unique<WaitControl>();
    waits->timeouts.silence_seconds = kLimitSeconds / 2;
    waits->hot_pauses = 16;
    host_ = std::make_unique<LaneWire>(lanes, rank, waits.get());
    device_wire_ = std::make_unique<DeviceWire>(host_.get());
    Transport* chosen =
        way == Way::kWire ? device_wire_.get() : static_cast<Transport*>(host_.get());
    auto wire = std::make_unique<Borrowed>(chosen);
    communicator_ = std::make_unique<Communicator>(std::move(waits), std::move(wire),
                                                   Topology{rank, world.num_processes});
  }

  void Check(const GpuRequest& request) {
    Scope scope(Describe(request));
    const int num_leaves = world_.num_processes * world_.num_replicas;
    const LeafValues leaves = Draw(request, num_leaves, &random_);
    const auto first = leaves.begin() + rank_ * world_.num_replicas;
    DeviceScope device(device_);
    GpuSide side(request, LeafValues(first, first + world_.num_replicas));
    host_->num_bytes = 0;
    device_wire_->num_device_bytes = 0;
    side.Start(*communicator_, *state_);
    CHECK_EQ(test::Describe(side.Await()), "");
    CheckSent(request);
    side.Check(leaves);
    for (size_t i = 0; i < request.counts.size(); ++i) {
      NoteEqual(rank_, board_, HashOf(side.Result(i)));
    }
  }

 private:
  // The communicator owns its transport; this one is looked at afterwards.
  class Borrowed : public Transport {
   public:
    explicit Borrowed(Transport* inner) : inner_(*inner) {}
    int rank() const override { return inner_.rank(); }
    int size() const override { return inner_.size(); }
    bool TakesDeviceMemory(int peer) const override { return inner_.TakesDeviceMemory(peer); }
    void SendRecv(const Send& send, const Recv& recv) override { inner_.SendRecv(send, recv); }

   private:
    Transport& inner_;
  };

  // Whether it was the wire of the host that the tensors took between processes.
  void CheckSent(const GpuRequest& request) const {
    double num_bytes = 0;
    for (int64_t count : request.counts) num_bytes += count * ElementBytes(request.dtype);
    const double sent_bytes = static_cast<double>(host_->num_bytes);
    const double device_bytes = static_cast<double>(device_wire_->num_device_bytes);
    if (way_ == Way::kIpc) {
      CHECK_AT_MOST(sent_bytes, 0.1 * num_bytes);
    } else {
      CHECK_AT_MOST(0.25 * num_bytes, sent_bytes);
    }
    if (way_ == Way::kWire) CHECK_AT_MOST(0.25 * num_bytes, device_bytes);
  }

  const World world_;
  const int rank_;
  Board* board_;
  const Way way_;
  int device_ = 0;
  std::shared_ptr<DeviceState> state_;
  std::unique_ptr<LaneWire> host_;
  std::unique_ptr<DeviceWire> device_wire_;
  std::unique_ptr<Communicator> communicator_;
  std::mt19937 random_{13};
};

void CheckWorlds(Way way, Devices devices, int64_t chunk_bytes) {
  for (const World& world : kWorlds) {
    Scope scope(std::to_string(world.num_processes) + " processes of " +
                std::to_string(world.num_replicas) + " replicas");
    // One for each pair of replicas, behind that of the processes themselves.
    const Lanes lanes(world.num_processes, 1 + world.num_replicas * world.num_replicas);
    test::ForEachProcess(world.num_processes, kLimitSeconds, [&](int rank, Board* board) {
      CudaOptions options;
      options.ipc = way == Way::kIpc;
      options.chunk_bytes = chunk_bytes;
      Process process(world, &lanes, rank, board, way, devices, options);
      // The buffers grow, and are large for what comes last.
      process.Check({DType::kFloat32, "adasum", false, {40003}});
      process.Check({DType::kFloat32, "adasum", true, kCounts});
      process.Check({DType::kBFloat16, "adasum", false, {70001, 3, 0}});
      process.Check({DType::kInt64, "sum", true, kCounts});
      process.Check({DType::kFloat64, "mean", false, {3, 500003}});
      process.Check({DType::kFloat32, "adasum", true, {150007}});
    });
  }
}

TEST(ReplicasOfProcessesThatShareADevice) { CheckWorlds(Way::kIpc, Devices::kOne, 0); }
TEST(ADeviceForEachProcess) { CheckWorlds(Way::kIpc, Devices::kAll, 0); }
TEST(ADeviceForEachProcessInManyChunks) { CheckWorlds(Way::kIpc, Devices::kAll, 40192); }
TEST(Staged) { CheckWorlds(Way::kStaged, Devices::kAll, 40192); }
TEST(AWireThatTakesDeviceMemory) { CheckWorlds(Way::kWire, Devices::kAll, 40192); }

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
