// What the shape functions of all ops that take a communicator have in common.
#ifndef ADASUM_OPS_GROUP_SHAPES_H_
#define ADASUM_OPS_GROUP_SHAPES_H_

#include "tensorflow/core/framework/shape_inference.h"

namespace adasum {

// Shapes, where the first input is one communicator's handle: kernels look at no list of them.
template <absl::Status (*Shapes)(tensorflow::shape_inference::InferenceContext*)>
absl::Status GroupShapes(tensorflow::shape_inference::InferenceContext* context) {
  tensorflow::shape_inference::ShapeHandle scalar;
  TF_RETURN_IF_ERROR(context->WithRank(context->input(0), 0, &scalar));
  return Shapes(context);
}

}  // namespace adasum

#endif  // ADASUM_OPS_GROUP_SHAPES_H_
