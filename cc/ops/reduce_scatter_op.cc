#include "cc/collectives/reduce_scatter.h"
#include "cc/collectives/rows.h"
#include "cc/core/error.h"
#include "cc/ops/dtypes.h"
#include "cc/ops/request_op.h"
#include "cc/ops/row_tensors.h"

namespace adasum {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

class ReduceScatterOp : public RequestOp {
 public:
  explicit ReduceScatterOp(tensorflow::OpKernelConstruction* context) : RequestOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("reduction", &reduction_));
  }

 private:
  absl::StatusOr<Request> MakeRequest(OpKernelContext* context, Group& group) const override {
    const Communicator& communicator = group.communicator();
    ReduceScatterTensors tensors{name(), reduction_, ToDType(input_type(1)), {}};
    for (int i = 0; i < context->num_outputs(); ++i) {
      const Tensor& input = context->input(1 + i);
      if (input.dims() == 0) {
        tensors.tensors.push_back({"[]", kScalar, 0, input.data(), nullptr});
        continue;
      }
      const int64_t num_rows = input.dim_size(0);
      TensorShape shape = input.shape();
      shape.set_dim(0, RowsOfRank(communicator.rank(), communicator.size(), num_rows).size());
      Tensor* output = nullptr;
      TF_RETURN_IF_ERROR(context->allocate_output(i, shape, &output));
      tensors.tensors.push_back({input.shape().DebugString(), num_rows, RowElements(shape),
                                 input.data(), output->data()});
    }
    return ReduceScatterRequest(std::move(tensors));
  }

  std::string reduction_;
};

REGISTER_KERNEL_BUILDER(Name("AdasumReduceScatter").Device(tensorflow::DEVICE_CPU),
                        ReduceScatterOp);

}  // namespace
}  // namespace adasum
