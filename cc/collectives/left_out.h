// What is left out of an exchange by all ranks alike.
#ifndef ADASUM_COLLECTIVES_LEFT_OUT_H_
#define ADASUM_COLLECTIVES_LEFT_OUT_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "cc/collectives/dealt_chunks.h"
#include "cc/core/transport.h"

namespace adasum {

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

  // Collective; returns those of all ranks. `theirs` is memory of the group.
  std::vector<Told> Gather(Transport& transport, std::vector<char>* theirs) const;

 private:
  int num_ranks_;
  int64_t of_owned_;
  std::vector<char> bytes_;
};

// Every rank's bytes at every rank, in rank order; collective, and as many on all ranks. Both are
// memory of the group, as messages may be longer than kOwnBytes.
void GatherBytes(Transport& transport, const std::vector<char>& mine, std::vector<char>* all);

// Something of which all ranks know that it is not there.
struct Missing {
  int64_t chunk;
  int rank;              // whose part, or -1 for the result
  int64_t num_elements;  // of all ranks together, that would be left out with it
  double norm2 = 0;      // of these
};

// Returns which of them are left out: all if that is at most `most` elements, else the smallest by
// norm as long as they fit. What is no number is not left out. `find_norms` is called only where
// there is a choice; it may be collective, as all ranks call this alike.
std::vector<bool> ChooseLeftOut(std::vector<Missing>& missing, int64_t most,
                                const std::function<void(std::vector<Missing>&)>& find_norms);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_LEFT_OUT_H_
