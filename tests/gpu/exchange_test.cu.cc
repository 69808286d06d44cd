// Whole allreduces of tensors on a GPU, without TensorFlow: several ranks of this process, each
// with streams and buffers of its own, share the device. Against the tree of tests/cc in float64.

#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>

#include "cc/cuda/cuda_place.h"
#include "cc/cuda/resources.cu.h"
#include "tests/cc/check.h"
#include "tests/cc/elements.h"
#include "tests/cc/ranks.h"
#include "tests/cc/tree.h"

namespace adasum {
namespace {

using test::Describe;
using test::Elements;
using test::kDTypes;
using test::Ranks;
using test::Scope;
using test::Wire;

// Empty and tiny tensors, and one whose halves are several chunks of an exchange.
const std::vector<int64_t> kCounts = {1, 0, 1000, 65, 1500007, 7};

double Roundoff(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return std::ldexp(1, -11);
    case DType::kBFloat16:
      return std::ldexp(1, -8);
    case DType::kFloat32:
      return std::ldexp(1, -24);
    default:
      return std::ldexp(1, -53);
  }
}

// A buffer on the device for what lies in pinned host memory.
struct DeviceElements {
  DeviceElements(DType dtype, const std::vector<double>& values) : values(dtype, values) {
    if (this->values.num_bytes() == 0) return;
    pinned = host.Get(this->values.num_bytes());
    std::memcpy(pinned, this->values.bytes(), this->values.num_bytes());
    bytes = device.Get(this->values.num_bytes());
  }
  void Fill(cudaStream_t stream) {
    if (bytes == nullptr) return;
    CheckCuda(cudaMemcpyAsync(bytes, pinned, values.num_bytes(), cudaMemcpyHostToDevice, stream),
              "cudaMemcpyAsync");
  }
  void Fetch() {
    if (bytes == nullptr) return;
    CheckCuda(cudaMemcpy(values.bytes(), bytes, values.num_bytes(), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
  }

  Elements values;
  Scratch host{ThePinnedMemory()};
  Scratch device{TheDeviceMemory()};
  void* pinned = nullptr;
  void* bytes = nullptr;
};

void CUDART_CB Sleep(void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

// One rank's side of a request. Its inputs arrive on the framework's stream after a while: who does
// not wait for it reads zeros.
struct Side {
  Side(DType dtype, const std::vector<std::vector<std::vector<double>>>& of_replica) {
    for (const auto& tensors : of_replica) {
      inputs.emplace_back();
      for (const std::vector<double>& values : tensors) {
        inputs.back().push_back(std::make_unique<DeviceElements>(dtype, values));
        DeviceElements& input = *inputs.back().back();
        if (input.bytes != nullptr) cudaMemset(input.bytes, 0, input.values.num_bytes());
      }
    }
    for (const std::vector<double>& values : of_replica[0]) {
      outputs.push_back(
          std::make_unique<DeviceElements>(dtype, std::vector<double>(values.size())));
    }
  }

  void Start(Communicator& communicator, DevicePlace& place, const std::string& reduction,
             DType dtype, bool in_place) {
    CheckCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    CheckCuda(cudaLaunchHostFunc(framework.get(), &Sleep, nullptr), "cudaLaunchHostFunc");
    AllreduceTensors tensors{"request", reduction, dtype, {}, {}, {}};
    for (auto& replica : inputs) {
      tensors.inputs.emplace_back();
      for (auto& input : replica) {
        input->Fill(framework.get());
        tensors.inputs.back().push_back(input->bytes);
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      tensors.shapes.push_back({outputs[i]->values.size()});
      tensors.outputs.push_back(in_place ? inputs[0][i]->bytes : outputs[i]->bytes);
    }
    tensors.device = place.Tensors(framework.get());
    Allreduce(communicator, std::move(tensors), pending.done());
  }

  Elements& Result(size_t tensor, bool in_place) {
    DeviceElements& result = in_place ? *inputs[0][tensor] : *outputs[tensor];
    result.Fetch();
    return result.values;
  }

  Stream framework;
  std::vector<std::vector<std::unique_ptr<DeviceElements>>> inputs;
  std::vector<std::unique_ptr<DeviceElements>> outputs;
  test::Pending pending;
};

std::vector<double> Draw(DType dtype, int64_t count, std::mt19937* random) {
  std::normal_distribution<double> normal;
  std::vector<double> values(count);
  for (double& value : values) {
    value = normal(*random);
    if (!IsFloating(dtype)) value = dtype == DType::kBool ? value > 0 : std::trunc(1000 * value);
  }
  return Elements(dtype, values).Values();
}

class Requests {
 public:
  Requests(Wire wire, int num_ranks, int num_replicas)
      : ranks_(wire, num_ranks), num_replicas_(num_replicas) {
    for (int rank = 0; rank < num_ranks; ++rank) places_.push_back(MakeCudaPlace(0));
  }

  // leaves[leaf][tensor]
  using Leaves = std::vector<std::vector<std::vector<double>>>;

  void Check(DType dtype, const std::string& reduction, bool in_place) {
    Scope scope(std::string(DTypeName(dtype)) + ", " + reduction + (in_place ? ", in place" : ""));
    Leaves leaves;
    for (int leaf = 0; leaf < ranks_.size() * num_replicas_; ++leaf) {
      leaves.emplace_back();
      for (int64_t count : kCounts) leaves.back().push_back(Draw(dtype, count, &random_));
    }
    std::vector<std::unique_ptr<Side>> sides;
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      auto first = leaves.begin() + rank * num_replicas_;
      sides.push_back(std::make_unique<Side>(dtype, Leaves(first, first + num_replicas_)));
      sides[rank]->Start(ranks_[rank], *places_[rank], reduction, dtype, in_place);
    }
    for (auto& side : sides) CHECK_EQ(Describe(side->pending.Await()), "");
    for (size_t tensor = 0; tensor < kCounts.size(); ++tensor) {
      CheckTensor(dtype, reduction, in_place, leaves, tensor, &sides);
    }
  }

 private:
  static void CheckTensor(DType dtype, const std::string& reduction, bool in_place,
                          const Leaves& leaves, size_t tensor,
                          std::vector<std::unique_ptr<Side>>* sides) {
    std::vector<std::vector<double>> values;
    double scale = 0;
    for (const auto& leaf : leaves) {
      values.push_back(leaf[tensor]);
      scale += test::Norm(leaf[tensor]);
    }
    Elements& first = (*sides)[0]->Result(tensor, in_place);
    const double limit = IsFloating(dtype) ? 16 * Roundoff(dtype) * scale : 0;
    CHECK_AT_MOST(test::Distance(first.Values(), test::ReduceTree(reduction, dtype, values)),
                  limit);
    for (auto& side : *sides) {
      Elements& other = side->Result(tensor, in_place);
      CHECK_EQ(std::memcmp(other.bytes(), first.bytes(), first.num_bytes()), 0);
    }
  }

  Ranks ranks_;
  const int num_replicas_;
  std::vector<std::shared_ptr<DevicePlace>> places_;
  std::mt19937 random_{7};
};

TEST(RanksShareADevice) {
  for (Wire wire : test::kWires) {
    for (int num_ranks = 1; num_ranks <= 5; ++num_ranks) {
      Scope scope(std::string(test::WireName(wire)) + ", " + std::to_string(num_ranks) + " ranks");
      Requests requests(wire, num_ranks, 1);
      for (const char* reduction : {"adasum", "sum", "mean"}) {
        requests.Check(DType::kFloat32, reduction, false);
        requests.Check(DType::kFloat32, reduction, true);
      }
    }
  }
}

TEST(AllDTypes) {
  Requests requests(Wire::kSharedMemory, 3, 1);
  for (DType dtype : kDTypes) {
    if (IsFloating(dtype)) requests.Check(dtype, "adasum", false);
    requests.Check(dtype, "sum", false);
    requests.Check(dtype, "mean", false);
  }
}

TEST(SeveralReplicas) {
  for (int num_replicas : {2, 3, 5}) {
    Requests requests(Wire::kSharedMemory, 1, num_replicas);
    requests.Check(DType::kFloat32, "adasum", false);
    requests.Check(DType::kFloat32, "adasum", true);
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
