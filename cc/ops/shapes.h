// TensorFlow's shapes as the collectives know them.
#ifndef ADASUM_OPS_SHAPES_H_
#define ADASUM_OPS_SHAPES_H_

#include "cc/collectives/allreduce.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace adasum {

inline Shape ToShape(const tensorflow::TensorShape& shape) {
  Shape sizes;
  for (int i = 0; i < shape.dims(); ++i) sizes.push_back(shape.dim_size(i));
  return sizes;
}

}  // namespace adasum

#endif  // ADASUM_OPS_SHAPES_H_
