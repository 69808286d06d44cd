// Rows that are told apart by an index each: sorted, dealt to ranks by range of the index, joined.
#ifndef ADASUM_COLLECTIVES_ROW_LISTS_H_
#define ADASUM_COLLECTIVES_ROW_LISTS_H_

#include <cstdint>
#include <vector>

#include "cc/core/arithmetic.h"
#include "cc/core/segments.h"

namespace adasum {

// The rows of one leaf, every index once.
class RowList {
 public:
  RowList(const int64_t* indices, int64_t num_rows);

  // Ascending.
  const std::vector<int64_t>& indices() const { return indices_; }

  // Writes the rows at `range` of `indices` behind each other: each the sum of those rows of
  // `values` that have its index, in the order in which they come.
  void SumRows(Range range, const void* values, int64_t row_elements, DType dtype,
               Arithmetic& arithmetic, char* out) const;

 private:
  std::vector<int64_t> indices_;
  // Those of one index together: rows_[begins_[i]] to rows_[begins_[i + 1] - 1] have indices_[i].
  // Both empty where the rows came so.
  std::vector<int64_t> rows_;
  std::vector<int64_t> begins_;
};

// One index out of a list, standing for `weight` of them.
struct IndexSample {
  int64_t index;
  double weight;
};

// At most so many samples of each list: as evenly as rows are dealt, a rank's share is off by less
// than a thirty-second of it, whatever the indices' distribution is.
constexpr int64_t kMostSamples = 32;

// Every so-manieth index of leaf `leaf` of `num_leaves`; lists of several leaves are sampled at
// different places, so that samples of like lists differ.
std::vector<int64_t> SampleIndices(const std::vector<int64_t>& indices, int leaf, int num_leaves);

// `size` + 1 ascending borders, from 0 to `end`: rank r gets indices in [borders[r], borders[r +
// 1]), about as many rows as every other.
std::vector<int64_t> BordersOf(std::vector<IndexSample> samples, int size, int64_t end);

// Where the indices in [begin, end) are in an ascending list.
Range Within(const std::vector<int64_t>& indices, int64_t begin, int64_t end);

// Adds the indices of one ascending list to another.
void Join(const int64_t* indices, int64_t num_rows, std::vector<int64_t>* all);

// Writes the rows at the places of their indices in `all`, and zeros at the others.
void SpreadRows(const int64_t* indices, int64_t num_rows, const char* values, int64_t row_bytes,
                const std::vector<int64_t>& all, char* out);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_ROW_LISTS_H_
