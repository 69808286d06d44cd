// Tensors as rows: how many there are, the first dimension, is each rank's own; what a row is, the
// other dimensions and the dtype, is the same on all ranks.
#ifndef ADASUM_COLLECTIVES_ROWS_H_
#define ADASUM_COLLECTIVES_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/transport.h"

namespace adasum {

struct RowTensor {
  std::string text;  // what all ranks must pass alike: "float rows of [3,4]"
  const void* bytes;
  int64_t num_rows;  // kScalar for a tensor that has no dimension to count along
  int64_t row_bytes;
};
constexpr int64_t kScalar = -1;
// More than any memory holds, and so few that sums over ranks and bytes of rows don't overflow.
constexpr int64_t kMostRows = int64_t{1} << 44;

// The texts in one line, which a request's signature holds.
std::string TextOf(const std::vector<RowTensor>& tensors);

// Counts of all ranks: [rank][i].
using Counts = std::vector<std::vector<int64_t>>;

// Collective. The rows of each of the request's tensors on all ranks; no scalars.
Counts GatherRows(Transport& transport, const std::vector<int64_t>& mine);

// Collective. As GatherRows, with scalars, and any numbers of the user's behind the rows of the
// first `num_tensors`; ranks may have unlike numbers of those.
Counts GatherCounts(Transport& transport, const std::vector<int64_t>& mine, size_t num_tensors);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_ROWS_H_
