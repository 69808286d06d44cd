#include "tests/gpu/requests.cu.h"

#include <cuda_runtime.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "tests/cc/check.h"
#include "tests/cc/normals.h"
#include "tests/cc/tree.h"

namespace adasum {
namespace test {
namespace {

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

std::vector<double> DrawVector(DType dtype, int64_t count, std::mt19937* random) {
  Normals normal((*random)());
  std::vector<double> values(count);
  for (double& value : values) {
    value = normal();
    if (!IsFloating(dtype)) value = dtype == DType::kBool ? value > 0 : std::trunc(1000 * value);
  }
  return Elements(dtype, values).Values();
}

void CUDART_CB Sleep(void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

}  // namespace

std::string Describe(const GpuRequest& request) {
  return std::string(DTypeName(request.dtype)) + ", " + request.reduction +
         (request.in_place ? ", in place" : "");
}

LeafValues Draw(const GpuRequest& request, int num_leaves, std::mt19937* random) {
  LeafValues leaves(num_leaves);
  for (auto& leaf : leaves) {
    for (int64_t count : request.counts) leaf.push_back(DrawVector(request.dtype, count, random));
  }
  return leaves;
}

LeafValues DrawOneOfEach(const GpuRequest& request, int num_leaves, std::mt19937* random) {
  LeafValues leaves = Draw(request, num_leaves, random);
  for (auto& leaf : leaves) {
    for (std::vector<double>& tensor : leaf) {
      for (size_t i = 0; i < tensor.size(); ++i) {
        if (i != tensor.size() * 6 / 7) tensor[i] = 0;
      }
    }
  }
  return leaves;
}

DeviceElements::DeviceElements(DType dtype, const std::vector<double>& values)
    : values(dtype, values) {
  if (this->values.num_bytes() == 0) return;
  pinned = host.Get(this->values.num_bytes());
  std::memcpy(pinned, this->values.bytes(), this->values.num_bytes());
  bytes = device.Get(this->values.num_bytes());
}

void DeviceElements::Fill(cudaStream_t stream) {
  if (bytes == nullptr) return;
  CheckCuda(cudaMemcpyAsync(bytes, pinned, values.num_bytes(), cudaMemcpyHostToDevice, stream),
            "cudaMemcpyAsync");
}

void DeviceElements::Fetch() {
  if (bytes == nullptr) return;
  CheckCuda(cudaMemcpy(values.bytes(), bytes, values.num_bytes(), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
}

GpuSide::GpuSide(const GpuRequest& request, const LeafValues& of_replica) : request_(request) {
  for (const auto& tensors : of_replica) {
    inputs_.emplace_back();
    for (const std::vector<double>& values : tensors) {
      inputs_.back().push_back(std::make_unique<DeviceElements>(request.dtype, values));
      DeviceElements& input = *inputs_.back().back();
      if (input.bytes != nullptr) cudaMemset(input.bytes, 0, input.values.num_bytes());
    }
  }
  for (int64_t count : request.counts) {
    outputs_.push_back(std::make_unique<DeviceElements>(request.dtype, std::vector<double>(count)));
  }
}

void GpuSide::Start(Communicator& communicator, DeviceState& state) {
  CheckCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  CheckCuda(cudaLaunchHostFunc(framework_.get(), &Sleep, nullptr), "cudaLaunchHostFunc");
  AllreduceTensors tensors{"request", request_.reduction, request_.dtype, {}, {}, {}};
  for (auto& replica : inputs_) {
    tensors.inputs.emplace_back();
    for (auto& input : replica) {
      input->Fill(framework_.get());
      tensors.inputs.back().push_back(input->bytes);
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    tensors.shapes.push_back({outputs_[i]->values.size()});
    tensors.outputs.push_back(request_.in_place ? inputs_[0][i]->bytes : outputs_[i]->bytes);
  }
  tensors.device = state.Tensors(framework_.get());
  EnqueueAllreduce(communicator, std::move(tensors), pending_.done());
}

Elements& GpuSide::Result(size_t tensor) {
  DeviceElements& result = request_.in_place ? *inputs_[0][tensor] : *outputs_[tensor];
  result.Fetch();
  return result.values;
}

void GpuSide::Overwrite() {
  auto overwrite = [](DeviceElements& tensor) {
    if (tensor.bytes != nullptr) cudaMemset(tensor.bytes, 0, tensor.values.num_bytes());
  };
  for (auto& replica : inputs_) {
    for (auto& input : replica) overwrite(*input);
  }
  for (auto& output : outputs_) overwrite(*output);
}

void GpuSide::Check(const LeafValues& leaves) {
  for (size_t tensor = 0; tensor < request_.counts.size(); ++tensor) {
    std::vector<std::vector<double>> values;
    double scale = 0;
    for (const auto& leaf : leaves) {
      values.push_back(leaf[tensor]);
      scale += Norm(leaf[tensor]);
    }
    const double limit = IsFloating(request_.dtype) ? 16 * Roundoff(request_.dtype) * scale : 0;
    CHECK_AT_MOST(
        Distance(Result(tensor).Values(), ReduceTree(request_.reduction, request_.dtype, values)),
        limit);
  }
}

uint64_t HashOf(const Elements& elements) {
  uint64_t hash = 0;
  for (int64_t i = 0; i < elements.num_bytes(); ++i) {
    hash = hash * 0x100000001B3u + static_cast<unsigned char>(elements.bytes()[i]);
  }
  return hash;
}

void CheckEqualBits(const GpuRequest& request, GpuSide& a, GpuSide& b) {
  for (size_t tensor = 0; tensor < request.counts.size(); ++tensor) {
    Elements& left = a.Result(tensor);
    Elements& right = b.Result(tensor);
    CHECK_EQ(std::memcmp(left.bytes(), right.bytes(), left.num_bytes()), 0);
  }
}

}  // namespace test
}  // namespace adasum
