#include "cc/collectives/allreduce.h"

#include <utility>

#include "cc/collectives/allreduce_execution.h"
#include "cc/collectives/reduction_spec.h"

namespace adasum {
namespace {

std::string ShapesText(const std::vector<Shape>& shapes) {
  std::string text;
  for (const Shape& shape : shapes) {
    text += text.empty() ? "[" : ", [";
    for (size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
    text += "]";
  }
  return text;
}

// One line that names all that must be equal on every rank.
std::string Signature(const AllreduceTensors& tensors, const ReductionSpec& spec) {
  return "allreduce(" + spec.Text() + ") of " + std::to_string(tensors.shapes.size()) + " " +
         DTypeName(tensors.dtype) + " tensors " + ShapesText(tensors.shapes) + " from " +
         std::to_string(tensors.inputs.size()) + " replicas" +
         (tensors.device == nullptr ? "" : " on GPUs") +
         (tensors.norms == nullptr ? "" : ", measured");
}

// Throws InvalidArgument.
Request MakeRequest(AllreduceTensors tensors, Done done) {
  const ReductionSpec spec =
      ReductionSpec::Parse(tensors.reduction, tensors.local_reduction, tensors.dtype);
  if (spec.inside != nullptr && tensors.device != nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "Expected tensors in host memory for a local reduction. Received: tensors on a "
                "GPU. Run the op on the CPU.");
  }
  RequestKey key(tensors.name, Signature(tensors, spec));
  auto run = [tensors = std::move(tensors), spec](RequestContext& context) {
    ExecuteAllreduce(tensors, spec, context);
  };
  return {std::move(key), std::move(run), std::move(done)};
}

}  // namespace

void Allreduce(Communicator& communicator, AllreduceTensors tensors, Done done) {
  try {
    communicator.Enqueue(MakeRequest(std::move(tensors), done));
  } catch (const Error& error) {
    done(&error);
  }
}

void AllreduceAndWait(Communicator& communicator, AllreduceTensors tensors) {
  communicator.RunAndWait(MakeRequest(std::move(tensors), nullptr));
}

}  // namespace adasum
