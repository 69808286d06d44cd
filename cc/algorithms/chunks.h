// Two ranges that are exchanged in chunks.
#ifndef ADASUM_ALGORITHMS_CHUNKS_H_
#define ADASUM_ALGORITHMS_CHUNKS_H_

#include <algorithm>

#include "cc/core/arithmetic.h"
#include "cc/core/segments.h"
#include "cc/core/transport.h"

namespace adasum {

// As Tuning::packed_chunks, between two leaves that halve.
constexpr int64_t kPackedChunks = 8;

// How many bytes are exchanged with a peer at a time, and combined by the cores together, each of
// which has a cache of its own.
inline int64_t ChunkBytesWith(int peer, const Transport& transport, const Arithmetic& arithmetic) {
  const int64_t most = transport.MostPosted(peer) > 0 ? kPostedBytes : kMessageBytes;
  return std::min(most, transport.ChunkBytes(peer)) * arithmetic.Width();
}

// Both sides have as many chunks, though one range may be longer. Where ranks read each other's
// memory, a chunk stays in a core's cache from one use to the next; over a network it is as long as
// a message may be.
class Chunks {
 public:
  // `chunk` in elements, at least 1. At least as many chunks as `longest` elements take.
  Chunks(Range keep, Range give, int64_t chunk, int64_t longest = 0)
      : keep_(keep),
        give_(give),
        chunk_(chunk),
        size_((std::max({keep.size(), give.size(), longest}) + chunk - 1) / chunk) {}

  int64_t size() const { return size_; }
  Range keep(int64_t i) const { return Of(keep_, i); }
  Range give(int64_t i) const { return Of(give_, i); }
  // Chunk i of any other range.
  Range Of(Range range, int64_t i) const {
    return {std::min(range.begin + i * chunk_, range.end),
            std::min(range.begin + (i + 1) * chunk_, range.end)};
  }

 private:
  Range keep_, give_;
  int64_t chunk_;
  int64_t size_;
};

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_CHUNKS_H_
