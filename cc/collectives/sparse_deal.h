// The first half of a sparse allreduce: every leaf's rows, each index once, go to the ranks by
// range of the index.
#ifndef ADASUM_COLLECTIVES_SPARSE_DEAL_H_
#define ADASUM_COLLECTIVES_SPARSE_DEAL_H_

#include <cstdint>
#include <vector>

#include "cc/collectives/row_lists.h"
#include "cc/collectives/sparse_allreduce.h"
#include "cc/collectives/sparse_scratch.h"
#include "cc/core/arithmetic.h"
#include "cc/core/leaf_numbers.h"
#include "cc/core/transport.h"

namespace adasum {

// What this rank got of one leaf: ascending, each index once.
struct DealtRows {
  const int64_t* indices;
  char* values;
  int64_t num_rows;
};

class SparseDeal {
 public:
  // All must outlive this.
  SparseDeal(const SparseAllreduceTensors& request, Transport& transport, Arithmetic& arithmetic,
             SparseScratch& scratch);

  // Collective. Throws InvalidArgument on all ranks for what one rank can't pass.
  void Exchange();

  int num_leaves() const { return numbers_.num_leaves(); }
  // Of a tensor, in this rank's range.
  DealtRows RowsOf(size_t tensor, int leaf) const;

 private:
  // A list of rows is that of a tensor and a replica of one rank, in this order.
  struct List {
    size_t tensor;
    int replica;
  };

  // The lists of a rank, as far as they go to one rank, and where they lie behind each other: all
  // indices, then all values.
  struct Block {
    int num_replicas;  // of the rank whose lists they are
    std::vector<int64_t> counts;
    std::vector<int64_t> most;  // counts of received_ are no more than the rank has
    int64_t begin = 0;          // bytes, in the buffer that holds it
  };

  std::string OwnFault() const;
  std::string OwnRows() const;
  void Agree();
  void SwapCounts();
  void Pack();
  void SwapRows();
  // What a rank says of the rows it sends here, and their indices; throws Internal.
  void CheckCounts(int from) const;
  void CheckIndices() const;

  // Of this rank's lists.
  List OwnList(size_t i) const {
    const int own = numbers_.CountOf(transport_.rank());
    return {i / own, static_cast<int>(i % own)};
  }
  const SparseRows& OwnRowsOf(size_t i) const {
    const List list = OwnList(i);
    return request_.tensors[list.tensor].replicas[list.replica];
  }
  int64_t RowBytes(const Block& block, size_t list) const {
    return request_.tensors[list / block.num_replicas].row_elements * ElementBytes(request_.dtype);
  }
  Range RangeOf(size_t list, int rank) const;
  // Behind which byte of the block the indices, and the values, of a list begin.
  int64_t IndicesAt(const Block& block, size_t list) const;
  int64_t ValuesAt(const Block& block, size_t list) const;
  int64_t Bytes(const Block& block) const { return ValuesAt(block, block.counts.size()); }
  // Sets where each block begins; returns the bytes of all.
  int64_t Place(std::vector<Block>* blocks) const;

  const SparseAllreduceTensors& request_;
  Transport& transport_;
  Arithmetic& arithmetic_;
  SparseScratch& scratch_;
  const LeafNumbers numbers_;
  std::vector<RowList> lists_;                 // of each tensor and replica
  std::vector<std::vector<int64_t>> borders_;  // of each tensor's ranges
  std::vector<Block> sent_, received_;         // to and from each rank
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_SPARSE_DEAL_H_
