// Whole allreduces of tensors on GPUs: several ranks and replicas of this process, each with
// streams and buffers of its own. Processes are in processes_test.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "cc/cuda/exported_memory.cu.h"
#include "cc/cuda/staging_transport.cu.h"
#include "cc/transport/thread_transport.h"
#include "tests/cc/check.h"
#include "tests/gpu/requests.cu.h"

namespace adasum {
namespace {

using test::Describe;
using test::GpuRequest;
using test::GpuSide;
using test::kDTypes;
using test::LeafValues;
using test::Ranks;
using test::Scope;
using test::Wire;

const std::vector<int64_t> kCounts = {1, 0, 1000, 65, 200003, 7};

int NumDevices() {
  int count = 0;
  CheckCuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

// Ranks of one communicator, one device for each if there are as many.
class Requests {
 public:
  Requests(Wire wire, int num_ranks, int num_replicas, const CudaOptions& options = {})
      : ranks_(wire, num_ranks), num_replicas_(num_replicas) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      states_.push_back(MakeCudaState(DeviceOf(rank), options));
    }
  }

  void Check(const GpuRequest& request) {
    Run(request, Draw(request, ranks_.size() * num_replicas_, &random_));
  }

  // Returns a result.
  std::unique_ptr<GpuSide> Run(const GpuRequest& request, const LeafValues& leaves) {
    Scope scope(Describe(request));
    std::vector<std::unique_ptr<GpuSide>> sides;
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      DeviceScope device(DeviceOf(rank));
      const auto first = leaves.begin() + rank * num_replicas_;
      sides.push_back(std::make_unique<GpuSide>(request, LeafValues(first, first + num_replicas_)));
      sides[rank]->Start(ranks_[rank], *states_[rank]);
    }
    for (auto& side : sides) CHECK_EQ(test::Describe(side->Await()), "");
    sides[0]->Check(leaves);
    for (auto& side : sides) CheckEqualBits(request, *sides[0], *side);
    return std::move(sides[0]);
  }

 private:
  int DeviceOf(int rank) const { return rank % num_devices_; }

  const int num_devices_ = NumDevices();
  Ranks ranks_;
  const int num_replicas_;
  std::vector<std::shared_ptr<DeviceState>> states_;
  std::mt19937 random_{7};
};

TEST(RanksOfOneProcess) {
  for (Wire wire : test::kWires) {
    for (int num_ranks = 1; num_ranks <= 5; ++num_ranks) {
      Scope scope(std::string(test::WireName(wire)) + ", " + std::to_string(num_ranks) + " ranks");
      Requests requests(wire, num_ranks, 1);
      for (const char* reduction : {"adasum", "sum", "mean"}) {
        requests.Check({DType::kFloat32, reduction, false, kCounts});
        requests.Check({DType::kFloat32, reduction, true, kCounts});
      }
      // One tensor alone is its own packed buffer.
      requests.Check({DType::kFloat32, "adasum", false, {100003}});
      requests.Check({DType::kFloat32, "adasum", true, {100003}});
    }
  }
}

TEST(AllDTypes) {
  Requests requests(Wire::kSharedMemory, 3, 1);
  for (DType dtype : kDTypes) {
    if (IsFloating(dtype)) requests.Check({dtype, "adasum", false, kCounts});
    requests.Check({dtype, "sum", false, kCounts});
    requests.Check({dtype, "mean", false, kCounts});
  }
}

// Results don't depend on how many chunks a tensor takes: bit by bit where the order of the sums
// does not matter either, else as close to the tree.
TEST(ChunksDoNotShow) {
  const std::vector<int64_t> counts = {1, 0, 3001, 65, 20003, 7, 0};
  const GpuRequest first{DType::kInt32, "sum", false, {1}};
  for (bool ipc : {false, true}) {
    CudaOptions options;
    options.ipc = ipc;
    for (int num_ranks = 1; num_ranks <= 5; ++num_ranks) {
      Scope scope(std::to_string(num_ranks) + " ranks" + (ipc ? ", IPC" : ", staged"));
      Requests whole(Wire::kSharedMemory, num_ranks, 1, options);
      whole.Check(first);
      options.chunk_bytes = 4096;
      Requests chunked(Wire::kSharedMemory, num_ranks, 1, options);
      options.chunk_bytes = 0;
      chunked.Check(first);
      std::mt19937 random(3);
      for (DType dtype : kDTypes) {
        const bool is_in_place = num_ranks % 2 == 0;
        const char* reduction = IsFloating(dtype) ? "adasum" : "mean";
        const GpuRequest request{dtype, reduction, is_in_place, counts};
        chunked.Check(request);
        const LeafValues leaves = DrawOneOfEach(request, num_ranks, &random);
        CheckEqualBits(request, *chunked.Run(request, leaves), *whole.Run(request, leaves));
        const GpuRequest sum{dtype, "sum", !is_in_place, counts};
        const LeafValues all = Draw(sum, num_ranks, &random);
        CheckEqualBits(sum, *chunked.Run(sum, all), *whole.Run(sum, all));
      }
    }
  }
}

TEST(SeveralReplicas) {
  for (int num_replicas : {2, 3, 5}) {
    Requests requests(Wire::kSharedMemory, 1, num_replicas);
    requests.Check({DType::kFloat32, "adasum", false, kCounts});
    requests.Check({DType::kFloat32, "adasum", true, kCounts});
  }
}

// A rank that receives only has no copy of its own to wait for: its kernels may still read what was
// received before.
TEST(StagedBytesArriveBehindKernels) {
  // More chunks than there are slots for them.
  const int64_t num_bytes = 6 * Staging::kChunkBytes + 5;
  WaitControl waits;
  ThreadHub hub(2, waits);
  test::ForEachRank(2, [&](int rank) {
    DeviceScope device(0);
    Scratch tensor{TheDeviceMemory()}, before{TheDeviceMemory()};
    void* bytes = tensor.Get(num_bytes);
    CheckCuda(cudaMemset(bytes, 1 + rank, num_bytes), "cudaMemset");
    CheckCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    Staging staging;
    Stream stream;
    ThreadTransport wire(&hub, rank);
    StagingTransport staged(&wire, &stream, &staging, &waits);
    if (rank == 0) {
      staged.Exchange({1, bytes, num_bytes}, {1, nullptr, 0});
      return;
    }
    CheckCuda(cudaMemcpyAsync(before.Get(num_bytes), bytes, num_bytes, cudaMemcpyDeviceToDevice,
                              stream.get()),
              "cudaMemcpyAsync");
    staged.Exchange({0, nullptr, 0}, {0, bytes, num_bytes});
    CheckCuda(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    std::vector<char> was(num_bytes), is(num_bytes);
    cudaMemcpy(was.data(), before.Get(num_bytes), num_bytes, cudaMemcpyDeviceToHost);
    cudaMemcpy(is.data(), bytes, num_bytes, cudaMemcpyDeviceToHost);
    CHECK_TRUE(was == std::vector<char>(num_bytes, 2));
    CHECK_TRUE(is == std::vector<char>(num_bytes, 1));
  });
}

// What peers may have mapped is never freed, and what they may still read is never lent again.
TEST(ExportedMemoryIsLentAgain) {
  DeviceScope device(0);
  ExportedMemory& memory = TheExportedMemory();
  void* first = memory.Allocate(5 << 20);
  memory.Free(first);
  CHECK_TRUE(memory.Allocate(6 << 20) == first);
  memory.Withhold(first);
  memory.Free(first);
  void* second = memory.Allocate(5 << 20);
  CHECK_TRUE(second != first);
  memory.Free(second);
}

}  // namespace
}  // namespace adasum

int main() {
  int num_devices = 0;
  if (cudaGetDeviceCount(&num_devices) != cudaSuccess || num_devices == 0) {
    std::fprintf(stderr, "exchange_test: expected a CUDA device. Received: none.\n");
    return 1;
  }
  return adasum::test::RunAll();
}
