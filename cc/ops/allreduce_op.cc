#include "cc/collectives/allreduce.h"
#include "cc/ops/communicator_resource.h"
#include "cc/ops/dtypes.h"
#if defined(ADASUM_CUDA)
#include "cc/ops/gpu_tensors.h"
#endif
#include "cc/ops/kept_tensors.h"
#include "cc/ops/replica_counts.h"
#include "cc/ops/replica_shapes.h"
#include "cc/ops/shapes.h"
#include "cc/ops/status.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace adasum {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

constexpr char kMeasuredAllreduce[] = "AdasumMeasuredAllreduce";

// Hands the tensors to the communication thread and returns; TensorFlow keeps inputs and outputs
// alive until `done` is called, on that thread. An op that is called eagerly is waited for by its
// caller in any case, and so runs on the caller's thread: two wake-ups less.
class AllreduceOp : public AsyncOpKernel {
 public:
  explicit AllreduceOp(OpKernelConstruction* context)
      : AsyncOpKernel(context),
        is_on_gpu_(context->device_type() == tensorflow::DeviceType(tensorflow::DEVICE_GPU)),
        measures_(context->def().op() == kMeasuredAllreduce) {
    OP_REQUIRES_OK(context, context->GetAttr("num_inputs", &num_inputs_));
    OP_REQUIRES_OK(context, context->GetAttr("num_tensors", &num_tensors_));
    OP_REQUIRES_OK(context, context->GetAttr("reduction", &reduction_));
    OP_REQUIRES_OK(context, context->GetAttr("local_reduction", &local_reduction_));
    OP_REQUIRES_OK(context, context->GetAttr("tensor_name", &name_));
    OP_REQUIRES_OK(context, context->GetAttr("caller_waits", &caller_waits_));
    OP_REQUIRES_OK(context, replica_counts_.Read(context));
    OP_REQUIRES(context, num_inputs_ % num_tensors_ == 0,
                absl::InvalidArgumentError(absl::StrCat(
                    "Expected the same number of tensors, ", num_tensors_,
                    ", from every replica. Received: ", num_inputs_, " tensors in all.")));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    std::shared_ptr<Group> group;
    OP_REQUIRES_OK_ASYNC(context, LookUpGroup(context, &group), done);
    OP_REQUIRES_OK_ASYNC(
        context,
        CheckReplicaShapes(context, group->communicator(), num_inputs_, num_tensors_, name_), done);
    OP_REQUIRES_OK_ASYNC(
        context, replica_counts_.Check(group->communicator(), num_inputs_ / num_tensors_), done);
    AllreduceTensors tensors{name_, reduction_, ToDType(input_type(1)), {},
                             {},    {},         local_reduction_};
    OP_REQUIRES_OK_ASYNC(context, Collect(context, &tensors), done);
    tensors.replica_counts = replica_counts_.counts();
    // TensorFlow's own threads help where they have nothing else to do; nothing waits for them.
    if (auto* threads = context->device()->tensorflow_cpu_worker_threads()) {
      tensors.lend = [pool = threads->workers](std::function<void()> work) {
        pool->Schedule(std::move(work));
      };
    }
#if defined(ADASUM_CUDA)
    if (is_on_gpu_) {
      OP_REQUIRES_OK_ASYNC(context, FindGpuTensors(context, group.get(), &tensors.device), done);
    }
#endif
    if (caller_waits_ && !is_on_gpu_) {
      context->SetStatus(RunAndWait(context, group, tensors));
      return done();
    }
    // The group stays open until the request is done.
    Allreduce(group->communicator(), std::move(tensors),
              [context, group, done](const Error* error) {
                KeepTensorsIfNeeded(error, context, group);
                context->SetStatus(ToStatus(error));
                done();
              });
  }

 private:
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

  static absl::Status RunAndWait(OpKernelContext* context, const std::shared_ptr<Group>& group,
                                 const AllreduceTensors& tensors) {
    try {
      AllreduceAndWait(group->communicator(), tensors);
      return absl::OkStatus();
    } catch (const Error& error) {
      KeepTensorsIfNeeded(&error, context, group);
      return ToStatus(&error);
    } catch (const std::exception& exception) {
      return absl::InternalError(exception.what());
    }
  }

  const bool is_on_gpu_;
  const bool measures_;
  int num_inputs_;
  int num_tensors_;
  std::string reduction_;
  std::string local_reduction_;
  std::string name_;
  bool caller_waits_;
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
