// TensorFlow's dtypes as the reductions know them.
#ifndef ADASUM_OPS_DTYPES_H_
#define ADASUM_OPS_DTYPES_H_

#include "cc/core/dtype.h"
#include "tensorflow/core/framework/types.h"

namespace adasum {

// Of a dtype that the ops of reductions take.
inline DType ToDType(tensorflow::DataType dtype) {
  switch (dtype) {
    case tensorflow::DT_HALF:
      return DType::kFloat16;
    case tensorflow::DT_BFLOAT16:
      return DType::kBFloat16;
    case tensorflow::DT_FLOAT:
      return DType::kFloat32;
    case tensorflow::DT_DOUBLE:
      return DType::kFloat64;
    case tensorflow::DT_INT32:
      return DType::kInt32;
    case tensorflow::DT_INT64:
      return DType::kInt64;
    default:
      return DType::kBool;  // the last that the op's type list allows
  }
}

}  // namespace adasum

#endif  // ADASUM_OPS_DTYPES_H_
