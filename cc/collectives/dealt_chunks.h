// How a packed vector is cut into chunks that travel each by itself, and which rank reduces each.
#ifndef ADASUM_COLLECTIVES_DEALT_CHUNKS_H_
#define ADASUM_COLLECTIVES_DEALT_CHUNKS_H_

#include <algorithm>
#include <cstdint>

#include "cc/core/segments.h"

namespace adasum {

class DealtChunks {
 public:
  DealtChunks(int64_t num_elements, int64_t element_bytes, int num_ranks)
      : num_elements_(num_elements), num_ranks_(num_ranks) {
    // One of 256 is 0.4 % of the vector. Shorter ones are not worth a message each.
    constexpr int64_t kMostChunks = 256, kLeastBytes = int64_t{4} << 10;
    const int64_t most = std::max(kMostChunks, int64_t{4} * num_ranks);
    const int64_t length = std::max((num_elements + most - 1) / most, kLeastBytes / element_bytes);
    chunk_elements_ = (length + kAligned - 1) / kAligned * kAligned;
  }

  int64_t size() const { return (num_elements_ + chunk_elements_ - 1) / chunk_elements_; }
  int64_t chunk_elements() const { return chunk_elements_; }
  Range Of(int64_t chunk) const {
    const int64_t begin = chunk * chunk_elements_;
    return {begin, std::min(begin + chunk_elements_, num_elements_)};
  }
  int OwnerOf(int64_t chunk) const { return static_cast<int>(chunk % num_ranks_); }
  // Of chunks of one owner: 0, 1, ...
  int64_t IndexAtOwner(int64_t chunk) const { return chunk / num_ranks_; }
  // At any owner.
  int64_t MostOwned() const { return (size() + num_ranks_ - 1) / num_ranks_; }

 private:
  static constexpr int64_t kAligned = 32;  // whole cache lines of every dtype

  int64_t num_elements_;
  int num_ranks_;
  int64_t chunk_elements_;
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_DEALT_CHUNKS_H_
