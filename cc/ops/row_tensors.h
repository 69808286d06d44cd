// TensorFlow's tensors as rows.
#ifndef ADASUM_OPS_ROW_TENSORS_H_
#define ADASUM_OPS_ROW_TENSORS_H_

#include <algorithm>
#include <string>
#include <vector>

#include "cc/collectives/rows.h"
#include "cc/core/error.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/util/overflow.h"

namespace adasum {

// How many elements a row has: 0 where that can't be counted, which only tensors without rows have.
inline int64_t RowElements(const tensorflow::TensorShape& shape) {
  int64_t num_elements = 1;
  for (int d = 1; d < shape.dims() && num_elements >= 0; ++d) {
    num_elements = tensorflow::MultiplyWithoutOverflow(num_elements, shape.dim_size(d));
  }
  return std::max(num_elements, int64_t{0});
}

// Points into `tensor`.
inline RowTensor ToRows(const tensorflow::Tensor& tensor) {
  const std::string dtype = DataTypeString(tensor.dtype());
  if (tensor.dims() == 0) return {dtype + " scalars", tensor.data(), kScalar, 0};
  std::string row;
  for (int d = 1; d < tensor.dims(); ++d) {
    row += (d == 1 ? "" : ",") + std::to_string(tensor.dim_size(d));
  }
  return {dtype + " rows of [" + row + "]", tensor.data(), tensor.dim_size(0),
          RowElements(tensor.shape()) * tensorflow::DataTypeSize(tensor.dtype())};
}

// Allocates output `index`: `num_rows` rows such as `like` has. Throws Error.
inline void* AllocateRows(tensorflow::OpKernelContext* context, int index,
                          const tensorflow::Tensor& like, int64_t num_rows) {
  tensorflow::TensorShape shape = like.shape();
  tensorflow::Tensor* output = nullptr;
  absl::Status status = shape.SetDimWithStatus(0, num_rows);
  if (status.ok()) status = context->allocate_output(index, shape, &output);
  if (status.ok()) return output->data();
  throw Error(ErrorCode::kResourceExhausted, std::string(status.message()));
}

// Fills the vector that is output `index`. Throws Error.
inline void PutVector(tensorflow::OpKernelContext* context, int index,
                      const std::vector<int64_t>& values) {
  tensorflow::Tensor* output = nullptr;
  const absl::Status status =
      context->allocate_output(index, {static_cast<int64_t>(values.size())}, &output);
  if (!status.ok()) throw Error(ErrorCode::kResourceExhausted, std::string(status.message()));
  std::copy(values.begin(), values.end(), output->flat<int64_t>().data());
}

}  // namespace adasum

#endif  // ADASUM_OPS_ROW_TENSORS_H_
