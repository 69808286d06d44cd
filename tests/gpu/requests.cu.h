// Allreduces of tensors on a GPU, without TensorFlow, against the tree of tests/cc in float64.
#ifndef ADASUM_TESTS_GPU_REQUESTS_CU_H_
#define ADASUM_TESTS_GPU_REQUESTS_CU_H_

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cc/core/scratch.h"
#include "cc/cuda/cuda_state.h"
#include "cc/cuda/resources.cu.h"
#include "tests/cc/elements.h"
#include "tests/cc/ranks.h"

namespace adasum {
namespace test {

struct GpuRequest {
  DType dtype;
  std::string reduction;
  bool in_place;
  std::vector<int64_t> counts;
};
std::string Describe(const GpuRequest& request);

// values[leaf][tensor], random and whole numbers of the dtype's rounding.
using LeafValues = std::vector<std::vector<std::vector<double>>>;
LeafValues Draw(const GpuRequest& request, int num_leaves, std::mt19937* random);
// The same with all but one value of a tensor zero, in the same place on all leaves. So every sum
// over a tensor has one term, and the same bits in any order.
LeafValues DrawOneOfEach(const GpuRequest& request, int num_leaves, std::mt19937* random);

// A buffer on the current device for what lies in pinned host memory.
struct DeviceElements {
  DeviceElements(DType dtype, const std::vector<double>& values);
  void Fill(cudaStream_t stream);
  void Fetch();

  Elements values;
  Scratch host{ThePinnedMemory()};
  Scratch device{TheDeviceMemory()};
  void* pinned = nullptr;
  void* bytes = nullptr;
};

// One process' side of a request, on the current device. Its inputs arrive on the framework's
// stream after a while: who does not wait for it reads zeros.
class GpuSide {
 public:
  // of_replica[replica][tensor]
  GpuSide(const GpuRequest& request, const LeafValues& of_replica);

  void Start(Communicator& communicator, DeviceState& state);
  Ending Await() { return pending_.Await(); }
  // When it has ended.
  Elements& Result(size_t tensor);
  // Writes zeros over all that was handed over.
  void Overwrite();
  // Compares the results with the tree of all leaves.
  void Check(const LeafValues& leaves);

 private:
  const GpuRequest request_;
  Stream framework_;
  std::vector<std::vector<std::unique_ptr<DeviceElements>>> inputs_;
  std::vector<std::unique_ptr<DeviceElements>> outputs_;
  Pending pending_;
};

uint64_t HashOf(const Elements& elements);

// Checks that two sides have the same bits.
void CheckEqualBits(const GpuRequest& request, GpuSide& a, GpuSide& b);

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_GPU_REQUESTS_CU_H_
