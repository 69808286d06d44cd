// Whole allreduces of tensors on GPUs between processes, which read each other's device memory by
// CUDA IPC: on one device that all share, and on several. Every process is forked before it calls
// CUDA. CUDA_STAND_IN means something to the stand-in for CPUs only (tests/cuda_stand_in).

#include "tests/cc/processes.h"

#include <cuda_runtime.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "cc/cuda/exported_memory.cu.h"
#include "tests/cc/check.h"
#include "tests/cc/counting_transport.h"
#include "tests/gpu/device_wire.cu.h"
#include "tests/gpu/requests.cu.h"

namespace adasum {
namespace {

using test::Board;
using test::CountingTransport;
using test::DeviceWire;
using test::GpuRequest;
using test::GpuSide;
using test::LeafValues;
using test::Scope;

constexpr int kLimitSeconds = 120;
const std::vector<int64_t> kCounts = {1, 0, 1000, 65, 200003, 7};
// Staged, a half is more chunks than there are slots for them.
const std::vector<int64_t> kManyChunks = {2800003, 5};

// kWire: as CUDA-aware MPI.
enum class Way { kIpc, kStaged, kWire, kEither };
enum class Devices { kOne, kAll };

int NumDevices() {
  int count = 0;
  CheckCuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count == 0) throw Error(ErrorCode::kInternal, "Expected a CUDA device. Received: none.");
  return count;
}

// One process with its communicator. All processes draw all leaves.
class Process {
 public:
  Process(int rank, int size, Board* board, Way way, Devices devices = Devices::kOne,
          const CudaOptions& options = {})
      : rank_(rank),
        size_(size),
        board_(board),
        way_(way),
        device_(devices == Devices::kOne ? 0 : rank % NumDevices()),
        state_(MakeCudaState(device_, options)) {
    NumDevices();
    auto waits = std::make_unique<WaitControl>();
    waits->timeouts.silence_seconds = kLimitSeconds / 2;
    waits->hot_pauses = 16;
    host_ = Connect(rank, size, board, *waits);
    device_wire_ = std::make_unique<DeviceWire>(host_.get());
    Transport* wire = way == Way::kWire ? device_wire_.get() : host_.get();
    auto counted = std::make_unique<CountingTransport>(wire);
    counted_ = counted.get();
    communicator_ =
        std::make_unique<Communicator>(std::move(waits), std::move(counted), Topology{rank, size});
  }
  // The communicator goes before what its transport refers to.
  ~Process() { Close(); }
  void Close() {
    communicator_.reset();
    state_.reset();
  }

  // when_done() is called before the results are looked at.
  void Check(const GpuRequest& request, const std::function<void()>& when_done = nullptr) {
    Scope scope(Describe(request) + ", " + std::to_string(size_) + " ranks");
    const LeafValues leaves = Draw(request, size_, &random_);
    DeviceScope device(device_);
    GpuSide side(request, {leaves[rank_]});
    counted_->num_bytes = 0;
    device_wire_->num_device_bytes = 0;
    side.Start(*communicator_, *state_);
    CHECK_EQ(test::Describe(side.Await()), "");
    if (size_ > 1) CheckSent(request);
    if (when_done) when_done();
    side.Check(leaves);
    for (size_t i = 0; i < request.counts.size(); ++i) {
      NoteEqual(rank_, board_, HashOf(side.Result(i)));
    }
  }

  void MoveTo(std::shared_ptr<DeviceState> state, int device) {
    state_ = std::move(state);
    device_ = device;
  }
  const std::shared_ptr<DeviceState>& state() const { return state_; }
  int device() const { return device_; }

 private:
  // Whether it was the wire of the host that the tensors took.
  void CheckSent(const GpuRequest& request) const {
    int64_t num_bytes = 0;
    for (int64_t count : request.counts) num_bytes += count * ElementBytes(request.dtype);
    const double sent_bytes = static_cast<double>(counted_->num_bytes);
    if (way_ == Way::kIpc) CHECK_AT_MOST(sent_bytes, 0.1 * num_bytes);
    if (way_ == Way::kStaged) CHECK_AT_MOST(0.25 * num_bytes, sent_bytes);
    const double device_bytes = static_cast<double>(device_wire_->num_device_bytes);
    if (way_ == Way::kWire) CHECK_AT_MOST(0.25 * num_bytes, device_bytes);
  }

  const int rank_;
  const int size_;
  Board* board_;
  const Way way_;
  int device_;
  std::shared_ptr<DeviceState> state_;
  std::unique_ptr<Transport> host_;
  std::unique_ptr<DeviceWire> device_wire_;
  CountingTransport* counted_ = nullptr;
  std::unique_ptr<Communicator> communicator_;
  std::mt19937 random_{11};
};

// Requests that make the buffers grow, and small ones in between.
void CheckRequests(Process* process) {
  process->Check({DType::kFloat32, "adasum", false, {40003}});
  process->Check({DType::kFloat32, "adasum", false, kCounts});
  process->Check({DType::kFloat32, "adasum", true, kCounts});
  process->Check({DType::kBFloat16, "adasum", false, {70001, 3, 0}});
  process->Check({DType::kInt64, "sum", true, kCounts});
  process->Check({DType::kFloat64, "mean", false, {3, 500003}});
  process->Check({DType::kFloat32, "adasum", true, {150007}});
}

TEST(ProcessesShareADevice) {
  for (int size = 1; size <= 5; ++size) {
    test::ForEachProcess(size, kLimitSeconds, [=](int rank, Board* board) {
      Process process(rank, size, board, Way::kIpc);
      CheckRequests(&process);
    });
  }
}

TEST(SomeAreBusier) {
  for (int size : {2, 3, 4}) {
    test::ForEachProcess(size, kLimitSeconds, [=](int rank, Board* board) {
      const char* when[] = {"soon", "late", "slow"};
      setenv("CUDA_STAND_IN", when[rank % 3], 1);
      Process process(rank, size, board, Way::kIpc);
      CheckRequests(&process);
    });
  }
}

TEST(ADeviceForEach) {
  for (int size : {2, 3, 4, 5}) {
    test::ForEachProcess(size, kLimitSeconds, [=](int rank, Board* board) {
      Process process(rank, size, board, Way::kIpc, Devices::kAll);
      CheckRequests(&process);
    });
  }
}

TEST(StagedWhereOneSideIsNotWilling) {
  for (int size : {2, 4}) {
    test::ForEachProcess(size, kLimitSeconds, [=](int rank, Board* board) {
      // All pairs of four ranks have one of these.
      CudaOptions options;
      options.ipc = rank != 1 && rank != 2;
      Process process(rank, size, board, Way::kStaged, Devices::kOne, options);
      CheckRequests(&process);
      if (size == 2) process.Check({DType::kFloat32, "adasum", true, kManyChunks});
    });
  }
}

// On a GPU all can.
TEST(OneCanNotDoWhatTheOthersCan) {
  for (const char* lack : {"0", "blind"}) {
    test::ForEachProcess(3, kLimitSeconds, [=](int rank, Board* board) {
      if (rank == 1) setenv("CUDA_STAND_IN_IPC", lack, 1);
      Process process(rank, 3, board, Way::kEither);
      CheckRequests(&process);
    });
  }
}

TEST(AWireThatTakesDeviceMemory) {
  for (int size : {2, 3, 5}) {
    test::ForEachProcess(size, kLimitSeconds, [=](int rank, Board* board) {
      CudaOptions options;
      options.ipc = false;
      Process process(rank, size, board, Way::kWire, Devices::kOne, options);
      CheckRequests(&process);
    });
  }
}

// By every way, in chunks on whose length ranks have different opinions.
TEST(ManyChunks) {
  for (Way way : {Way::kIpc, Way::kStaged, Way::kWire}) {
    for (Devices devices : {Devices::kOne, Devices::kAll}) {
      for (int size : {2, 3, 4}) {
        test::ForEachProcess(size, kLimitSeconds, [=](int rank, Board* board) {
          constexpr int64_t kChunkBytes[] = {5120, 0, 40192, 8192};
          CudaOptions options;
          options.chunk_bytes = kChunkBytes[rank];
          options.ipc = way == Way::kIpc;
          Process process(rank, size, board, way, devices, options);
          process.Check({DType::kFloat32, "adasum", false, kCounts});
          process.Check({DType::kBFloat16, "adasum", true, {70001, 3, 0}});
          process.Check({DType::kFloat64, "mean", true, {30011}});
        });
      }
    }
  }
}

// A rank whose tensors move to another device, or come back, starts anew with all its peers.
TEST(ARankMoves) {
  test::ForEachProcess(3, kLimitSeconds, [](int rank, Board* board) {
    Process process(rank, 3, board, Way::kIpc);
    process.Check({DType::kFloat32, "adasum", false, kCounts});
    const std::shared_ptr<DeviceState> first = process.state();
    const int other = NumDevices() - 1;
    if (rank == 0) process.MoveTo(MakeCudaState(other, {}), other);
    process.Check({DType::kFloat32, "adasum", true, kCounts});
    process.MoveTo(first, 0);
    process.Check({DType::kFloat32, "adasum", false, kCounts});
  });
}

// A rank that is done leaves and lends its memory to others, while its peers still deliver.
TEST(OneLeavesEarly) {
  for (int size : {2, 3, 4}) {
    test::ForEachProcess(size, kLimitSeconds, [=](int rank, Board* board) {
      setenv("CUDA_STAND_IN", rank == 0 ? "soon" : "slow", 1);
      Process process(rank, size, board, Way::kIpc);
      auto leave = [&] {
        if (rank != 0) return;
        process.Close();
        for (int64_t num_bytes = int64_t{2} << 20; num_bytes <= 16 << 20; num_bytes *= 2) {
          cudaMemset(TheExportedMemory().Allocate(num_bytes), 0, num_bytes);
        }
      };
      process.Check({DType::kFloat32, "adasum", true, {700007, 300}}, leave);
    });
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
