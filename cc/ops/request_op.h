// What the kernels of collectives have in common: one request each.
#ifndef ADASUM_OPS_REQUEST_OP_H_
#define ADASUM_OPS_REQUEST_OP_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "cc/engine/request.h"
#include "cc/ops/communicator_resource.h"
#include "cc/ops/kept_tensors.h"
#include "cc/ops/status.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace adasum {

// Hands its request to the communication thread and returns; TensorFlow keeps inputs and outputs
// alive until `done` is called, on that thread. An op that is called eagerly is waited for by its
// caller in any case, and so runs on the caller's thread (`caller_waits`): two wake-ups less.
class RequestOp : public tensorflow::AsyncOpKernel {
 public:
  explicit RequestOp(tensorflow::OpKernelConstruction* context) : AsyncOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("tensor_name", &name_));
    OP_REQUIRES_OK(context, context->GetAttr("caller_waits", &caller_waits_));
  }

  void ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) final {
    std::shared_ptr<Group> group;
    OP_REQUIRES_OK_ASYNC(context, LookUpGroup(context, &group), done);
    if (caller_waits_) {
      context->SetStatus(StatusOf([&] { return RunAndKeep(context, group); }));
      return done();
    }
    absl::StatusOr<Request> request;
    OP_REQUIRES_OK_ASYNC(context, StatusOf([&] {
                           request = MakeRequest(context, *group);
                           return request.status();
                         }),
                         done);
    // The group stays open until the request is done.
    request->done = [context, group, done](const Error* error) {
      KeepTensorsIfNeeded(error, context, group);
      context->SetStatus(ToStatus(error));
      done();
    };
    group->communicator().Enqueue(*std::move(request));
  }

 protected:
  // The request without `done`; it may use `context` until it is done. May throw.
  virtual absl::StatusOr<Request> MakeRequest(tensorflow::OpKernelContext* context,
                                              Group& group) const = 0;
  // Carries it out on the calling thread. May throw.
  virtual absl::Status RunAndWait(tensorflow::OpKernelContext* context, Group& group) const {
    absl::StatusOr<Request> request = MakeRequest(context, group);
    if (request.ok()) group.communicator().RunAndWait(*std::move(request));
    return request.status();
  }
  const std::string& name() const { return name_; }
  // Of kernels whose tensors are on a GPU, for which no caller waits.
  void LeaveToCommunicationThread() { caller_waits_ = false; }

 private:
  absl::Status RunAndKeep(tensorflow::OpKernelContext* context,
                          const std::shared_ptr<Group>& group) const {
    try {
      return RunAndWait(context, *group);
    } catch (const Error& error) {
      KeepTensorsIfNeeded(&error, context, group);
      throw;
    }
  }

  std::string name_;
  bool caller_waits_;
};

}  // namespace adasum

#endif  // ADASUM_OPS_REQUEST_OP_H_
