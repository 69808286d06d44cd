// What allreduces of encoded tensors keep between requests.
#ifndef ADASUM_COLLECTIVES_COMPRESSED_SCRATCH_H_
#define ADASUM_COLLECTIVES_COMPRESSED_SCRATCH_H_

#include <algorithm>
#include <cstdint>

#include "cc/core/scratch.h"

namespace adasum {

// Of the group's memory, since what travels is longer than messages that may be given up.
struct CompressedScratch {
  // Bytes of each.
  struct Room {
    int64_t sent = 0, received = 0, values = 0;

    bool Holds(const Room& other) const {
      return sent >= other.sent && received >= other.received && values >= other.values;
    }
    void Grow(const Room& other) {
      sent = std::max(sent, other.sent);
      received = std::max(received, other.received);
      values = std::max(values, other.values);
    }
  };

  Scratch sent, received;  // codes
  Scratch values;          // all leaves' values of this rank's parts, and what they are reduced to
  Room agreed;             // what all ranks have
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_COMPRESSED_SCRATCH_H_
