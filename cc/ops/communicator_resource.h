// A communicator as a TensorFlow resource.
#ifndef ADASUM_OPS_COMMUNICATOR_RESOURCE_H_
#define ADASUM_OPS_COMMUNICATOR_RESOURCE_H_

#include <memory>
#include <string>

#include "cc/bootstrap/group.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_base.h"

namespace adasum {

class CommunicatorResource : public tensorflow::ResourceBase {
 public:
  explicit CommunicatorResource(std::shared_ptr<Group> group) : group_(std::move(group)) {}
  const std::shared_ptr<Group>& group() const { return group_; }
  std::string DebugString() const override { return "AdasumCommunicator"; }

 private:
  std::shared_ptr<Group> group_;
};

// The group behind input 0 of an op.
absl::Status LookUpGroup(tensorflow::OpKernelContext* context, std::shared_ptr<Group>* group);

}  // namespace adasum

#endif  // ADASUM_OPS_COMMUNICATOR_RESOURCE_H_
