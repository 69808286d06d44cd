// Whole allreduces of tensors on GPUs between processes, which read each other's device memory by
// CUDA IPC: on one device that all share, and on several. Every process is forked before it calls
// CUDA. CUDA_STAND_IN means something to the stand-in for CPUs only (tests/cuda_stand_in).

#include "tests/cc/processes.h"

#include <cuda_runtime.h>

#include <cstdlib>
#include <string>

#include "cc/cuda/exported_memory.cu.h"
#include "tests/cc/check.h"
#include "tests/cc/counting_transport.h"
#include "tests/gpu/requests.cu.h"

namespace adasum {
namespace {

using test::Board;
using test::CountingTransport;
using test::GpuRequest;
using test::GpuSide;
using test::LeafValues;
using test::Scope;

constexpr int kLimitSeconds = 120;
const std::vector<int64_t> kCounts = {1, 0, 1000, 65, 200003, 7};
// Staged, a half is more chunks than there are places for them.
const std::vector<int64_t> kManyChunks = {2800003, 5};

enum class Way { kIpc, kStaged };
enum class Devices { kOne, kAll };

int NumDevices() {
  int count = 0;
  CheckCuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count == 0) throw Error(ErrorCode::kInternal, "Expected a CUDA device. Received: none.");
  return count;
}

uint64_t HashOf(const test::Elements& elements) {
  uint64_t hash = 0;
  for (int64_t i = 0; i < elements.num_bytes(); ++i) {
    hash = hash * 0x100000001B3u + static_cast<unsigned char>(elements.bytes()[i]);
  }
  return hash;
}

// One process with its communicator. All processes draw all leaves.
class Process {
 public:
  Process(int rank, int size, Board* board, Devices devices = Devices::kOne)
      : rank_(rank),
        size_(size),
        board_(board),
        device_(devices == Devices::kOne ? 0 : rank % NumDevices()),
        place_(MakeCudaPlace(device_)) {
    NumDevices();
    auto limits = std::make_unique<WaitLimits>();
    limits->silence_seconds = kLimitSeconds / 2;
    limits->hot_pauses = 16;
    host_ = Connect(rank, size, board, *limits);
    auto counted = std::make_unique<CountingTransport>(host_.get());
    counted_ = counted.get();
    communicator_ = std::make_unique<Communicator>(std::move(limits), std::move(counted),
                                                   Placement{rank, size});
  }
  // The communicator goes before what its transport refers to.
  ~Process() { Close(); }
  void Close() {
    communicator_.reset();
    place_.reset();
  }

  void Check(const GpuRequest& request, Way way) {
    Scope scope(Describe(request) + ", " + std::to_string(size_) + " ranks");
    const LeafValues leaves = Draw(request, size_, &random_);
    DeviceScope device(device_);
    GpuSide side(request, {leaves[rank_]});
    const int64_t before = counted_->num_bytes;
    side.Start(*communicator_, *place_);
    CHECK_EQ(test::Describe(side.Await()), "");
    if (size_ > 1) CheckSent(counted_->num_bytes - before, request, way);
    side.Check(leaves);
    for (size_t i = 0; i < request.counts.size(); ++i) {
      NoteEqual(rank_, board_, HashOf(side.Result(i)));
    }
  }

  void MoveTo(std::shared_ptr<DevicePlace> place, int device) {
    place_ = std::move(place);
    device_ = device;
  }
  const std::shared_ptr<DevicePlace>& place() const { return place_; }
  int device() const { return device_; }

 private:
  // Whether it was the wire of the host that the tensors took.
  static void CheckSent(int64_t sent_bytes, const GpuRequest& request, Way way) {
    int64_t num_bytes = 0;
    for (int64_t count : request.counts) num_bytes += count * ElementBytes(request.dtype);
    if (way == Way::kIpc) {
      CHECK_AT_MOST(static_cast<double>(sent_bytes), 0.1 * num_bytes);
    } else {
      CHECK_AT_MOST(0.25 * num_bytes, static_cast<double>(sent_bytes));
    }
  }

  const int rank_;
  const int size_;
  Board* board_;
  int device_;
  std::shared_ptr<DevicePlace> place_;
  std::unique_ptr<Transport> host_;
  CountingTransport* counted_ = nullptr;
  std::unique_ptr<Communicator> communicator_;
  std::mt19937 random_{11};
};

// Requests that make the buffers grow, and small ones in between.
void CheckRequests(Process* process, Way way) {
  process->Check({DType::kFloat32, "adasum", false, {40003}}, way);
  process->Check({DType::kFloat32, "adasum", false, kCounts}, way);
  process->Check({DType::kFloat32, "adasum", true, kCounts}, way);
  process->Check({DType::kBFloat16, "adasum", false, {70001, 3, 0}}, way);
  process->Check({DType::kInt64, "sum", true, kCounts}, way);
  process->Check({DType::kFloat64, "mean", false, {3, 500003}}, way);
  process->Check({DType::kFloat32, "adasum", true, {150007}}, way);
}

TEST(ProcessesShareADevice) {
  for (int size = 1; size <= 5; ++size) {
    test::ForEachProcess(size, kLimitSeconds, [=](int rank, Board* board) {
      Process process(rank, size, board);
      CheckRequests(&process, Way::kIpc);
    });
  }
}

TEST(SomeAreBusier) {
  for (int size : {2, 3, 4}) {
    test::ForEachProcess(size, kLimitSeconds, [=](int rank, Board* board) {
      const char* when[] = {"soon", "late", "slow"};
      setenv("CUDA_STAND_IN", when[rank % 3], 1);
      Process process(rank, size, board);
      CheckRequests(&process, Way::kIpc);
    });
  }
}

TEST(ADeviceForEach) {
  for (int size : {2, 3, 4, 5}) {
    test::ForEachProcess(size, kLimitSeconds, [=](int rank, Board* board) {
      Process process(rank, size, board, Devices::kAll);
      CheckRequests(&process, Way::kIpc);
    });
  }
}

TEST(StagedWhereOneSideIsNotWilling) {
  for (int size : {2, 4}) {
    test::ForEachProcess(size, kLimitSeconds, [=](int rank, Board* board) {
      // All pairs of four ranks have one of these.
      if (rank == 1 || rank == 2) setenv("TF_ADASUM_CUDA_IPC", "0", 1);
      Process process(rank, size, board);
      CheckRequests(&process, Way::kStaged);
      if (size == 2) process.Check({DType::kFloat32, "adasum", true, kManyChunks}, Way::kStaged);
    });
  }
}

// A rank whose tensors move to another device, or come back, starts anew with all its peers.
TEST(ARankMoves) {
  test::ForEachProcess(3, kLimitSeconds, [](int rank, Board* board) {
    Process process(rank, 3, board);
    process.Check({DType::kFloat32, "adasum", false, kCounts}, Way::kIpc);
    const std::shared_ptr<DevicePlace> first = process.place();
    const int other = NumDevices() - 1;
    if (rank == 0) process.MoveTo(MakeCudaPlace(other), other);
    process.Check({DType::kFloat32, "adasum", true, kCounts}, Way::kIpc);
    process.MoveTo(first, 0);
    process.Check({DType::kFloat32, "adasum", false, kCounts}, Way::kIpc);
  });
}

// A rank that is done leaves and lends its memory to others, while its peers still deliver.
TEST(OneLeavesEarly) {
  for (int size : {2, 3, 4}) {
    test::ForEachProcess(size, kLimitSeconds, [=](int rank, Board* board) {
      setenv("CUDA_STAND_IN", rank == 0 ? "soon" : "slow", 1);
      Process process(rank, size, board);
      process.Check({DType::kFloat32, "adasum", true, {700007, 300}}, Way::kIpc);
      if (rank != 0) return;
      process.Close();
      DeviceScope device(0);
      for (int64_t num_bytes = int64_t{2} << 20; num_bytes <= 64 << 20; num_bytes *= 2) {
        cudaMemset(TheExportedMemory().Allocate(num_bytes), 0, num_bytes);
      }
      CheckCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    });
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
