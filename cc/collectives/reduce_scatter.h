// The reduce-scatter of a list of tensors, as a request to a communicator: every rank gets its
// share of the rows of their reduction.
#ifndef ADASUM_COLLECTIVES_REDUCE_SCATTER_H_
#define ADASUM_COLLECTIVES_REDUCE_SCATTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/dtype.h"
#include "cc/core/segments.h"
#include "cc/engine/request.h"

namespace adasum {

// The rows that `rank` gets: all have as many, or the first ranks one more.
Range RowsOfRank(int rank, int size, int64_t num_rows);

// A tensor of one dtype, the same shape on all ranks.
struct ScatteredTensor {
  std::string text;  // its shape, which all ranks must pass alike
  int64_t num_rows;  // kScalar for a scalar, which is refused on all ranks
  int64_t row_elements;
  const void* input;
  void* output;  // for the rows of this rank
};

struct ReduceScatterTensors {
  std::string name;       // equal on all ranks for what belongs together
  std::string reduction;  // one of ReductionNames() that works element by element
  DType dtype;
  // They belong to the caller, who keeps them until the request is done.
  std::vector<ScatteredTensor> tensors;
};

// `done` is the caller's to set. Throws InvalidArgument for a reduction that can't be scattered.
Request ReduceScatterRequest(ReduceScatterTensors tensors);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_REDUCE_SCATTER_H_
