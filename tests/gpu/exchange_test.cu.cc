// Whole allreduces of tensors on GPUs: several ranks and replicas of this process, each with
// streams and buffers of its own. Processes are in processes_test.

#include <cuda_runtime.h>

#include <cstdio>

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
  Requests(Wire wire, int num_ranks, int num_replicas)
      : ranks_(wire, num_ranks), num_replicas_(num_replicas) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      places_.push_back(MakeCudaPlace(DeviceOf(rank)));
    }
  }

  void Check(const GpuRequest& request) {
    Scope scope(Describe(request));
    const LeafValues leaves = Draw(request, ranks_.size() * num_replicas_, &random_);
    std::vector<std::unique_ptr<GpuSide>> sides;
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      DeviceScope device(DeviceOf(rank));
      const auto first = leaves.begin() + rank * num_replicas_;
      sides.push_back(std::make_unique<GpuSide>(request, LeafValues(first, first + num_replicas_)));
      sides[rank]->Start(ranks_[rank], *places_[rank]);
    }
    for (auto& side : sides) CHECK_EQ(test::Describe(side->Await()), "");
    sides[0]->Check(leaves);
    for (auto& side : sides) CheckEqualBits(request, *sides[0], *side);
  }

 private:
  int DeviceOf(int rank) const { return rank % num_devices_; }

  const int num_devices_ = NumDevices();
  Ranks ranks_;
  const int num_replicas_;
  std::vector<std::shared_ptr<DevicePlace>> places_;
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

TEST(SeveralReplicas) {
  for (int num_replicas : {2, 3, 5}) {
    Requests requests(Wire::kSharedMemory, 1, num_replicas);
    requests.Check({DType::kFloat32, "adasum", false, kCounts});
    requests.Check({DType::kFloat32, "adasum", true, kCounts});
  }
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
