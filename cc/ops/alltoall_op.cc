#include <numeric>

#include "cc/collectives/alltoall.h"
#include "cc/ops/request_op.h"
#include "cc/ops/row_tensors.h"

namespace adasum {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Inputs: the communicator, the splits, the tensors. Outputs: what was received of each tensor, and
// how many rows of each rank.
class AlltoallOp : public RequestOp {
 public:
  using RequestOp::RequestOp;

 private:
  static constexpr int kFirst = 2;

  absl::StatusOr<Request> MakeRequest(OpKernelContext* context, Group&) const override {
    const auto splits = context->input(1).flat<int64_t>();
    AlltoallTensors tensors{name(), {}, {splits.data(), splits.data() + splits.size()}, {}};
    for (int i = kFirst; i < context->num_inputs(); ++i) {
      tensors.inputs.push_back(ToRows(context->input(i)));
    }
    tensors.allocate = [context](const std::vector<int64_t>& received) {
      return Allocate(context, received);
    };
    return AlltoallRequest(std::move(tensors));
  }

  static std::vector<void*> Allocate(OpKernelContext* context,
                                     const std::vector<int64_t>& received) {
    const int num_tensors = context->num_inputs() - kFirst;
    const int64_t num_rows = std::accumulate(received.begin(), received.end(), int64_t{0});
    std::vector<void*> outputs;
    for (int i = 0; i < num_tensors; ++i) {
      outputs.push_back(AllocateRows(context, i, context->input(kFirst + i), num_rows));
    }
    PutVector(context, num_tensors, received);
    return outputs;
  }
};

REGISTER_KERNEL_BUILDER(Name("AdasumAlltoall").Device(tensorflow::DEVICE_CPU), AlltoallOp);

}  // namespace
}  // namespace adasum
