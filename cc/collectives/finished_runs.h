// The last stage of a hierarchy: each rank of a host has finished a run of a list of tensors, and
// all others of the host read it.
#ifndef ADASUM_COLLECTIVES_FINISHED_RUNS_H_
#define ADASUM_COLLECTIVES_FINISHED_RUNS_H_

#include <vector>

#include "cc/algorithms/squared_norms.h"
#include "cc/core/arithmetic.h"
#include "cc/core/scratch.h"
#include "cc/core/segments.h"
#include "cc/core/transport.h"

namespace adasum {

// One list of tensors, as the stages hand it on.
struct StageTensors {
  DType dtype;
  const Segments& segments;
  const std::vector<void*>& addresses;  // null where a segment is empty
  Arithmetic& arithmetic;
  SquaredNorms* norms;  // one per segment; null where nobody asks

  int64_t Bytes(Range elements) const { return elements.size() * ElementBytes(dtype); }

  // Calls visit(segment, skip, offset, num_bytes) for what each tensor has of `part`: it begins
  // `skip` bytes behind the tensor's begin, and `offset` behind that of the part.
  template <typename Visit>
  void ForEachPiece(Range part, Visit visit) const {
    segments.ForEach(part, [&](int64_t segment, Range piece) {
      visit(segment, Bytes({segments.offset(segment), piece.begin}),
            Bytes({part.begin, piece.begin}), Bytes(piece));
    });
  }
};

// Memory of this stage.
struct RunsScratch {
  // What this rank shows to the others of its host, where the transport has no memory for it.
  Scratch shown;
  Scratch received;  // where nobody reads peers' memory
};

// Collective over `host`. runs[k] are the segments that rank k has finished, none of some ranks; on
// return all ranks have all tensors and norms.
//
// Tensors that are mapped, or may be copied across, are read where they lie; those of a rank that
// has others go through its workspace, piece by piece. Before each piece, and before the return of
// a rank whose tensors were read, the ranks of the host wait for each other.
void SpreadRuns(Transport& host, const std::vector<Range>& runs, const StageTensors& tensors,
                RunsScratch& scratch);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_FINISHED_RUNS_H_
