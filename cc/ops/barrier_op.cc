#include "cc/collectives/barrier.h"
#include "cc/ops/request_op.h"

namespace adasum {
namespace {

class BarrierOp : public RequestOp {
 public:
  using RequestOp::RequestOp;

 private:
  absl::StatusOr<Request> MakeRequest(tensorflow::OpKernelContext*, Group&) const override {
    return BarrierRequest(name());
  }
};

REGISTER_KERNEL_BUILDER(Name("AdasumBarrier").Device(tensorflow::DEVICE_CPU), BarrierOp);

}  // namespace
}  // namespace adasum
