#include <cstring>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/public/version.h"
#include "xla/stream_executor/stream.h"

// Streams of TensorFlow 2.16 have no MemZero.
#define ADASUM_ZEROS_ON_GPU (TF_GRAPH_DEF_VERSION > 1766)

namespace adasum {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

REGISTER_OP("AdasumZerosIf")
    .Input("is_zero: bool")
    .Input("value: T")
    .Output("result: T")
    .Attr(
        "T: {half, bfloat16, float, double, int8, uint8, int16, uint16, int32, uint32, int64, "
        "uint64, bool, complex64, complex128}")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      tensorflow::shape_inference::ShapeHandle scalar;
      TF_RETURN_IF_ERROR(context->WithRank(context->input(0), 0, &scalar));
      context->set_output(0, context->input(1));
      return absl::OkStatus();
    })
    .Doc("Zeros in the shape of the value where is_zero, else the value itself, not copied.");

// One node in place of a tf.cond, for which TensorFlow traces two functions.
class ZerosIfOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& is_zero = context->input(0);
    const Tensor& value = context->input(1);
    OP_REQUIRES(context, is_zero.dims() == 0,
                absl::InvalidArgumentError(absl::StrCat("Expected a scalar is_zero. Received: ",
                                                        is_zero.shape().DebugString())));
    if (!is_zero.scalar<bool>()()) {
      context->set_output(0, value);
      return;
    }
    // The value's own memory may be others' as well: never written to.
    Tensor* zeros = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, value.shape(), &zeros));
    if (zeros->TotalBytes() > 0) OP_REQUIRES_OK(context, Clear(context, zeros));
  }

 private:
  // In all dtypes of the op zero is zero bytes.
  static absl::Status Clear(OpKernelContext* context, Tensor* tensor) {
#if ADASUM_ZEROS_ON_GPU
    auto* device_context = context->op_device_context();
    auto* stream = device_context == nullptr ? nullptr : device_context->stream();
    if (stream != nullptr) return ClearOn(stream, &stream_executor::Stream::MemZero, tensor);
#endif
    std::memset(tensor->data(), 0, tensor->TotalBytes());
    return absl::OkStatus();
  }

  // The type of a place on a device has another name in each few versions of TensorFlow.
  template <typename Stream, typename Place>
  static absl::Status ClearOn(Stream* stream, absl::Status (Stream::*clear)(Place*, uint64_t),
                              Tensor* tensor) {
    Place place(tensor->data(), tensor->TotalBytes());
    return (stream->*clear)(&place, tensor->TotalBytes());
  }
};

REGISTER_KERNEL_BUILDER(Name("AdasumZerosIf").Device(tensorflow::DEVICE_CPU), ZerosIfOp);
#if ADASUM_ZEROS_ON_GPU
// By TensorFlow's own stream: it needs no CUDA toolkit, as exchanges on the CPU need none.
REGISTER_KERNEL_BUILDER(Name("AdasumZerosIf").Device(tensorflow::DEVICE_GPU).HostMemory("is_zero"),
                        ZerosIfOp);
#endif

}  // namespace
}  // namespace adasum
