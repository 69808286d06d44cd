// The allreduce of tensors of which each leaf has only some rows, as a request to a communicator:
// rows travel, and what no leaf has is zero.
#ifndef ADASUM_COLLECTIVES_SPARSE_ALLREDUCE_H_
#define ADASUM_COLLECTIVES_SPARSE_ALLREDUCE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cc/core/dtype.h"
#include "cc/engine/request.h"

namespace adasum {

// What one replica has of a tensor: rows in any order; those of one index are added up.
struct SparseRows {
  const int64_t* indices;
  const void* values;
  int64_t num_rows;
  std::string fault;  // what can't be taken as rows, as an error says it; empty for nothing
};

struct SparseTensor {
  std::string text;      // what all ranks must pass alike: "rows of [64] out of 1000"
  int64_t dense_rows;    // indices are in [0, dense_rows)
  int64_t row_elements;  // at least 0
  std::vector<SparseRows> replicas;
};

struct ReducedRows {
  int64_t* indices;
  void* values;
};

struct SparseAllreduceTensors {
  std::string name;       // equal on all ranks for what belongs together
  std::string reduction;  // "adasum", "mean" or "sum"
  DType dtype;
  // They belong to the caller, who keeps them until the request is done.
  std::vector<SparseTensor> tensors;
  // Called once, by the thread that carries out the request, with the number of rows of each
  // result: returns where they go. May throw Error where there is no memory for them.
  std::function<std::vector<ReducedRows>(const std::vector<int64_t>&)> allocate;
  // Of every rank; empty where all have as many as this one.
  std::vector<int> replica_counts = {};
};

// The result has the rows that any leaf has, ascending, each index once; the same bits on all
// ranks. `done` is the caller's to set. Throws InvalidArgument for another reduction, or for a
// dtype that can't be reduced so.
Request SparseAllreduceRequest(SparseAllreduceTensors tensors);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_SPARSE_ALLREDUCE_H_
