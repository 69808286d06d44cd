#include "cc/collectives/allgather.h"
#include "cc/ops/request_op.h"
#include "cc/ops/row_tensors.h"

namespace adasum {
namespace {

using tensorflow::OpKernelContext;

class AllgatherOp : public RequestOp {
 public:
  using RequestOp::RequestOp;

 private:
  absl::StatusOr<Request> MakeRequest(OpKernelContext* context, Group&) const override {
    AllgatherTensors tensors{name(), {}, {}};
    for (int i = 1; i < context->num_inputs(); ++i) {
      tensors.inputs.push_back(ToRows(context->input(i)));
    }
    tensors.allocate = [context](const std::vector<GatheredRows>& rows) {
      return Allocate(context, rows);
    };
    return AllgatherRequest(std::move(tensors));
  }

  static std::vector<void*> Allocate(OpKernelContext* context,
                                     const std::vector<GatheredRows>& rows) {
    std::vector<void*> outputs;
    std::vector<int64_t> begins;
    for (const GatheredRows& of_tensor : rows) {
      const int i = static_cast<int>(outputs.size());
      outputs.push_back(AllocateRows(context, i, context->input(1 + i), of_tensor.num_rows));
      begins.push_back(of_tensor.begin);
    }
    PutVector(context, static_cast<int>(rows.size()), begins);
    return outputs;
  }
};

REGISTER_KERNEL_BUILDER(Name("AdasumAllgather").Device(tensorflow::DEVICE_CPU), AllgatherOp);

}  // namespace
}  // namespace adasum
