// The chunks that one rank reduces for all.
#ifndef ADASUM_COLLECTIVES_OWNED_CHUNKS_H_
#define ADASUM_COLLECTIVES_OWNED_CHUNKS_H_

#include <string>
#include <vector>

#include "cc/algorithms/schedule.h"
#include "cc/collectives/chunk_memory.h"
#include "cc/collectives/left_out.h"
#include "cc/core/arithmetic.h"
#include "cc/core/dtype.h"
#include "cc/core/segments.h"
#include "cc/core/transport.h"
#include "cc/reductions/reduction.h"

namespace adasum {

// A range of the packed vector, with each rank's elements in memory of its own.
struct OwnedChunk {
  Range range;
  std::vector<Chunk> leaves;  // of each rank; the result takes the place of the first
};

class OwnedChunks {
 public:
  // `reductions` are of each segment. All must outlive this.
  OwnedChunks(DType dtype, const Segments& segments, const std::vector<std::string>& reductions,
              Transport* transport, Arithmetic* arithmetic, GatheredBytes* messages)
      : dtype_(dtype),
        segments_(segments),
        reductions_(reductions),
        transport_(*transport),
        arithmetic_(*arithmetic),
        messages_(*messages) {}

  // The whole tree over all ranks, segment by segment and node by node; collective, as the moments
  // of a segment are those of all ranks' chunks. `chunks` are in their order.
  void Reduce(const std::vector<OwnedChunk>& chunks) const;

 private:
  using Pieces = std::vector<Piece>;
  // Of segments with this reduction.
  Pieces PiecesOf(const std::vector<OwnedChunk>& chunks, const TreeNode& node,
                  const std::string& reduction) const;
  // Of each node's segments, over all ranks.
  std::vector<std::vector<Moments>> MomentsOf(const std::vector<Pieces>& of_nodes) const;
  // The same bits on all ranks.
  void SumOverRanks(std::vector<Moments>* moments) const;
  void SumGathered(std::vector<Moments>* moments) const;
  void SumAtFirstRank(std::vector<Moments>* moments) const;

  DType dtype_;
  const Segments& segments_;
  const std::vector<std::string>& reductions_;
  Transport& transport_;
  Arithmetic& arithmetic_;
  GatheredBytes& messages_;
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_OWNED_CHUNKS_H_
