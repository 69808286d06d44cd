// What the kernels of collectives have in common: one request each.
#ifndef ADASUM_OPS_REQUEST_OP_H_
#define ADASUM_OPS_REQUEST_OP_H_

#include <exception>
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
// caller in any case, and so runs on the caller's thread (`caller_waits`).
class RequestOp : public tensorflow::AsyncOpKernel {
 public:
  explicit RequestOp(tensorflow::OpKernelConstruction* context) : AsyncOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("tensor_name", &name_));
    OP_REQUIRES_OK(context, context->GetAttr("caller_waits", &caller_waits_));
  }

  void ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) override {
    std::shared_ptr<Group> group;
    OP_REQUIRES_OK_ASYNC(context, LookUpGroup(context, &group), done);
    absl::StatusOr<Request> request = MakeRequest(context, group->communicator());
    OP_REQUIRES_OK_ASYNC(context, request.status(), done);
    if (caller_waits_) {
      context->SetStatus(RunAndWait(context, group, *std::move(request)));
      return done();
    }
    // The group stays open until the request is done.
    request->done = [context, group, done](const Error* error) {
      KeepTensorsIfNeeded(error, context, group);
      context->SetStatus(ToStatus(error));
      done();
    };
    group->communicator().Enqueue(*std::move(request));
  }

 protected:
  // The request without `done`; it may use `context` until it is done.
  virtual absl::StatusOr<Request> MakeRequest(tensorflow::OpKernelContext* context,
                                              const Communicator& communicator) const = 0;
  const std::string& name() const { return name_; }

 private:
  static absl::Status RunAndWait(tensorflow::OpKernelContext* context,
                                 const std::shared_ptr<Group>& group, Request request) {
    try {
      group->communicator().RunAndWait(std::move(request));
      return absl::OkStatus();
    } catch (const Error& error) {
      KeepTensorsIfNeeded(&error, context, group);
      return ToStatus(&error);
    } catch (const std::exception& exception) {
      return absl::InternalError(exception.what());
    }
  }

  std::string name_;
  bool caller_waits_;
};

}  // namespace adasum

#endif  // ADASUM_OPS_REQUEST_OP_H_
