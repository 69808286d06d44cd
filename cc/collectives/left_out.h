// What is left out of an exchange by all ranks alike.
#ifndef ADASUM_COLLECTIVES_LEFT_OUT_H_
#define ADASUM_COLLECTIVES_LEFT_OUT_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "cc/collectives/dealt_chunks.h"
#include "cc/core/transport.h"

namespace adasum {

// What ranks send each other, and where they receive it. Memory of the group, as messages may be
// longer than kOwnBytes.
struct GatheredBytes {
  std::vector<char> own;
  std::vector<char> all;      // in rank order
  std::vector<char> rotated;  // the same, beginning with the own ones
};

// Every rank's bytes at every rank; collective, and as many on all ranks. Takes ceil(log2(P))
// rounds (Bruck et al., "Efficient Algorithms for All-to-All Communications", 1997, section 4).
void GatherBytes(Transport& transport, GatheredBytes* bytes);

// What a rank tells of its messages in one phase: of each chunk by its number, and of each of its
// own chunks and each rank.
class Told {
 public:
  Told(const DealtChunks& chunks, int num_ranks)
      : num_ranks_(num_ranks), bytes_(chunks.size() + chunks.MostOwned() * num_ranks) {
    of_owned_ = chunks.size();
  }
  char& OfChunk(int64_t chunk) { return bytes_[chunk]; }
  char& OfOwned(int64_t index, int rank) { return bytes_[of_owned_ + index * num_ranks_ + rank]; }

  // Collective; returns those of all ranks.
  std::vector<Told> Gather(Transport& transport, GatheredBytes* messages) const;

 private:
  int num_ranks_;
  int64_t of_owned_;
  std::vector<char> bytes_;
};

// Something of which all ranks know that it is not there.
struct Missing {
  static constexpr int kResult = -1;

  int64_t chunk;
  int rank;              // whose part, or kResult
  int64_t num_elements;  // of all ranks together, that would be left out with it
  double norm2 = 0;      // of these
};

// Returns which of them are left out: all if that is at most `most` elements, else the smallest by
// norm as long as they fit, of which none is without a finite norm. `find_norms` is called only
// where there is a choice; it may be collective, as all ranks call this alike.
std::vector<bool> ChooseLeftOut(std::vector<Missing>& missing, int64_t most,
                                const std::function<void(std::vector<Missing>&)>& find_norms);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_LEFT_OUT_H_
