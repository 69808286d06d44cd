#include "cc/collectives/row_lists.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <utility>

#include "cc/core/bytes.h"

namespace adasum {

RowList::RowList(const int64_t* indices, int64_t num_rows) {
  if (std::adjacent_find(indices, indices + num_rows, std::greater_equal<int64_t>()) ==
      indices + num_rows) {
    indices_.assign(indices, indices + num_rows);
    return;
  }
  std::vector<std::pair<int64_t, int64_t>> sorted(num_rows);  // index, row
  for (int64_t row = 0; row < num_rows; ++row) sorted[row] = {indices[row], row};
  std::sort(sorted.begin(), sorted.end());
  rows_.reserve(num_rows);
  for (const auto& [index, row] : sorted) {
    if (indices_.empty() || indices_.back() != index) {
      indices_.push_back(index);
      begins_.push_back(static_cast<int64_t>(rows_.size()));
    }
    rows_.push_back(row);
  }
  begins_.push_back(num_rows);
}

void RowList::SumRows(Range range, const void* values, int64_t row_elements, DType dtype,
                      Arithmetic& arithmetic, char* out) const {
  const int64_t row_bytes = row_elements * ElementBytes(dtype);
  if (begins_.empty()) {
    return arithmetic.Copy(out, At(values, range.begin * row_bytes), range.size() * row_bytes);
  }
  std::vector<Piece> more;  // of indices that come several times
  for (int64_t i = range.begin; i < range.end; ++i, out += row_bytes) {
    arithmetic.Copy(out, At(values, rows_[begins_[i]] * row_bytes), row_bytes);
    for (int64_t k = begins_[i] + 1; k < begins_[i + 1]; ++k) {
      more.push_back({0, out, At(values, rows_[k] * row_bytes), out, nullptr, row_elements});
    }
  }
  arithmetic.Add(dtype, more);
}

std::vector<int64_t> SampleIndices(const std::vector<int64_t>& indices, int leaf, int num_leaves) {
  const int64_t count = static_cast<int64_t>(indices.size());
  const int64_t num_samples = std::min(count, kMostSamples);
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < num_samples; ++i) {
    const double place =
        (static_cast<double>(i) + (leaf + 0.5) / num_leaves) / static_cast<double>(num_samples);
    samples.push_back(indices[static_cast<int64_t>(place * static_cast<double>(count))]);
  }
  return samples;
}

std::vector<int64_t> BordersOf(std::vector<IndexSample> samples, int size, int64_t end) {
  std::stable_sort(samples.begin(), samples.end(),
                   [](const IndexSample& a, const IndexSample& b) { return a.index < b.index; });
  double total = 0;
  for (const IndexSample& sample : samples) total += sample.weight;
  std::vector<int64_t> borders(1, 0);
  double before = 0;
  for (const IndexSample& sample : samples) {
    while (static_cast<int>(borders.size()) < size &&
           before >= total / size * static_cast<double>(borders.size())) {
      borders.push_back(sample.index);
    }
    before += sample.weight;
  }
  borders.resize(size + 1, end);
  return borders;
}

Range Within(const std::vector<int64_t>& indices, int64_t begin, int64_t end) {
  const auto first = std::lower_bound(indices.begin(), indices.end(), begin);
  const auto last = std::lower_bound(first, indices.end(), end);
  return {first - indices.begin(), last - indices.begin()};
}

void Join(const int64_t* indices, int64_t num_rows, std::vector<int64_t>* all) {
  std::vector<int64_t> joined;
  joined.reserve(all->size() + num_rows);
  std::set_union(all->begin(), all->end(), indices, indices + num_rows, std::back_inserter(joined));
  all->swap(joined);
}

void SpreadRows(const int64_t* indices, int64_t num_rows, const char* values, int64_t row_bytes,
                const std::vector<int64_t>& all, char* out) {
  int64_t next = 0;
  for (int64_t index : all) {
    if (next < num_rows && indices[next] == index) {
      std::memcpy(out, values + next++ * row_bytes, row_bytes);
    } else {
      std::memset(out, 0, row_bytes);
    }
    out += row_bytes;
  }
}

}  // namespace adasum
