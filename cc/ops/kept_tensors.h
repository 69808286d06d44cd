// What a message that was given up may still touch.
#ifndef ADASUM_OPS_KEPT_TENSORS_H_
#define ADASUM_OPS_KEPT_TENSORS_H_

#include <memory>
#include <vector>

#include "cc/bootstrap/group.h"
#include "cc/core/error.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace adasum {

// Keeps an op's inputs and outputs, and the group, until the process ends, if `error` says that
// they must stay (Transport::HasAbandoned). Null means success.
inline void KeepTensorsIfNeeded(const Error* error, tensorflow::OpKernelContext* context,
                                const std::shared_ptr<Group>& group) {
  if (error == nullptr || !error->needs_memory_kept()) return;
  auto* tensors = new std::vector<tensorflow::Tensor>;  // never deleted
  for (int i = 1; i < context->num_inputs(); ++i) tensors->push_back(context->input(i));
  for (int i = 0; i < context->num_outputs(); ++i) {
    if (context->mutable_output(i) != nullptr) tensors->push_back(*context->mutable_output(i));
  }
  new std::shared_ptr<Group>(group);
}

}  // namespace adasum

#endif  // ADASUM_OPS_KEPT_TENSORS_H_
