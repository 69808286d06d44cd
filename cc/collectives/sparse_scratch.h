// What sparse allreduces keep between requests.
#ifndef ADASUM_COLLECTIVES_SPARSE_SCRATCH_H_
#define ADASUM_COLLECTIVES_SPARSE_SCRATCH_H_

#include "cc/core/scratch.h"

namespace adasum {

// Of the group's memory, since what travels is longer than messages that may be given up.
struct SparseScratch {
  Scratch sent, received;  // counts, indices and values, dealt to the ranks and by them
  Scratch spread;          // the leaves' values of this rank's range, with zeros between them
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_SPARSE_SCRATCH_H_
