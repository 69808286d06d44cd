#include <functional>
#include <utility>

#include "cc/collectives/allreduce.h"
#include "cc/ops/dtypes.h"
#if defined(ADASUM_CUDA)
#include "cc/ops/gpu_tensors.h"
#endif
#include "cc/ops/replica_counts.h"
#include "cc/ops/replica_shapes.h"
#include "cc/ops/request_op.h"
#include "cc/ops/shapes.h"

namespace adasum {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

constexpr char kMeasuredAllreduce[] = "AdasumMeasuredAllreduce";

class AllreduceOp : public RequestOp {
 public:
  explicit AllreduceOp(OpKernelConstruction* context)
      : RequestOp(context),
        is_on_gpu_(context->device_type() == tensorflow::DeviceType(tensorflow::DEVICE_GPU)),
        measures_(context->def().op() == kMeasuredAllreduce) {
    OP_REQUIRES_OK(context, context->GetAttr("num_inputs", &num_inputs_));
    OP_REQUIRES_OK(context, context->GetAttr("num_tensors", &num_tensors_));
    OP_REQUIRES_OK(context, context->GetAttr("reduction", &reduction_));
    OP_REQUIRES_OK(context, context->GetAttr("local_reduction", &local_reduction_));
    OP_REQUIRES_OK(context, replica_counts_.Read(context));
    OP_REQUIRES(context, num_inputs_ % num_tensors_ == 0,
                absl::InvalidArgumentError(absl::StrCat(
                    "Expected the same number of tensors, ", num_tensors_,
                    ", from every replica. Received: ", num_inputs_, " tensors in all.")));
    if (is_on_gpu_) LeaveToCommunicationThread();
  }

 private:
  absl::StatusOr<Request> MakeRequest(OpKernelContext* context, Group& group) const override {
    AllreduceTensors tensors{};
    TF_RETURN_IF_ERROR(Describe(context, group, &tensors));
    return AllreduceRequest(std::move(tensors));
  }

  absl::Status RunAndWait(OpKernelContext* context, Group& group) const override {
    AllreduceTensors tensors{};
    TF_RETURN_IF_ERROR(Describe(context, group, &tensors));
    AllreduceAndWait(group.communicator(), tensors);
    return absl::OkStatus();
  }

  absl::Status Describe(OpKernelContext* context, Group& group, AllreduceTensors* tensors) const {
    const Communicator& communicator = group.communicator();
    TF_RETURN_IF_ERROR(
        CheckReplicaShapes(context, communicator, num_inputs_, num_tensors_, name()));
    TF_RETURN_IF_ERROR(replica_counts_.Check(communicator, num_inputs_ / num_tensors_));
    tensors->name = name();
    tensors->reduction = reduction_;
    tensors->local_reduction = local_reduction_;
    tensors->dtype = ToDType(input_type(1));
    tensors->replica_counts = replica_counts_.counts();
    TF_RETURN_IF_ERROR(Collect(context, tensors));
    // TensorFlow's own threads help where they have nothing else to do; nothing waits for them.
    if (auto* threads = context->device()->tensorflow_cpu_worker_threads()) {
      tensors->lend = [pool = threads->workers](std::function<void()> work) {
        pool->Schedule(std::move(work));
      };
    }
#if defined(ADASUM_CUDA)
    if (is_on_gpu_) TF_RETURN_IF_ERROR(FindGpuTensors(context, group, &tensors->device));
#endif
    return absl::OkStatus();
  }

  absl::Status Collect(OpKernelContext* context, AllreduceTensors* tensors) const {
    for (int i = 0; i < num_inputs_; ++i) {
      if (i % num_tensors_ == 0) tensors->inputs.emplace_back();
      tensors->inputs.back().push_back(context->input(1 + i).data());
    }
    for (int i = 0; i < num_tensors_; ++i) {
      const auto& shape = context->input(1 + i).shape();
      tensors->shapes.push_back(ToShape(shape));
      Tensor* output = nullptr;
      // In place where nobody else holds the gradient, which is the rule in a training step.
      TF_RETURN_IF_ERROR(context->forward_input_or_allocate_output({1 + i}, i, shape, &output));
      tensors->outputs.push_back(output->data());
    }
    return measures_ ? AllocateNorms(context, tensors) : absl::OkStatus();
  }

  absl::Status AllocateNorms(OpKernelContext* context, AllreduceTensors* tensors) const {
    static_assert(sizeof(SquaredNorms) == 2 * sizeof(double), "a row of two numbers");
    Tensor* norms = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(num_tensors_, {num_tensors_, 2}, &norms));
    tensors->norms = static_cast<SquaredNorms*>(norms->data());
    return absl::OkStatus();
  }

  const bool is_on_gpu_;
  const bool measures_;
  int num_inputs_;
  int num_tensors_;
  std::string reduction_;
  std::string local_reduction_;
  ReplicaCounts replica_counts_;
};

REGISTER_KERNEL_BUILDER(Name("AdasumAllreduce").Device(tensorflow::DEVICE_CPU), AllreduceOp);
REGISTER_KERNEL_BUILDER(Name(kMeasuredAllreduce).Device(tensorflow::DEVICE_CPU), AllreduceOp);
#if defined(ADASUM_CUDA)
REGISTER_KERNEL_BUILDER(
    Name("AdasumAllreduce").Device(tensorflow::DEVICE_GPU).HostMemory("communicator"), AllreduceOp);
#endif

}  // namespace
}  // namespace adasum
