// The fusion buffer of a leaf: its tensors lie apart with the caller, and packed end to end here,
// from where they are sent.
#ifndef ADASUM_ALGORITHMS_FUSION_BUFFER_H_
#define ADASUM_ALGORITHMS_FUSION_BUFFER_H_

#include <vector>

#include "cc/algorithms/collective_context.h"

namespace adasum {

// Of each leaf `run_of(leaf)`; null for the own one, whose values are where they are.
template <typename RunOf>
std::vector<const void*> RunsOfLeaves(int rank, int size, RunOf run_of) {
  std::vector<const void*> runs(size);
  for (int leaf = 0; leaf < size; ++leaf) {
    if (leaf != rank) runs[leaf] = run_of(leaf);
  }
  return runs;
}

// Ranges are in elements of the packed vector. All references must outlive this.
class FusionBuffer {
 public:
  FusionBuffer(const LeafTensors& tensors, const CollectiveContext& context);

  DType dtype() const { return tensors_.dtype; }
  int64_t num_segments() const { return tensors_.segments.size(); }
  Range all() const { return tensors_.segments.all(); }
  int64_t Bytes(Range range) const { return range.size() * element_bytes_; }
  // Elements that fill `num_bytes`.
  int64_t Elements(int64_t num_bytes) const { return num_bytes / element_bytes_; }

  // Takes a working buffer that holds `range`, and behind it `extra_bytes` for the caller's use.
  void Open(Range range, int64_t extra_bytes);
  bool Holds(Range range) const { return range_.begin <= range.begin && range.end <= range_.end; }
  // The address of a part of Open's range, and of what lies behind the range.
  char* Work(Range range) const;
  char* Extra() const { return Work({range_.end, range_.end}); }
  // Whether results that are combined in Work() lie where the caller will read them.
  bool WorksInOutput() const;

  // Own values of `range` as one run of bytes: where they are if they are one, else packed to `to`.
  const void* Packed(Range range, char* to);
  // The same for a peer, which may read them in this leaf's memory.
  const void* PackedFor(int peer, Range range, char* to);

  // The operands of one combination in `range`: packed runs that begin with the range, null for the
  // own values where they are. Results go to `out`, a packed run too, and if `is_final` to the
  // caller's tensors; null if only there.
  std::vector<Piece> Pieces(Range range, const void* left, const void* right, void* out,
                            bool is_final) const;
  // The operands of all leaves in `range`, of each a run as above. Results go to `out`, past the
  // caches if so told, and to the caller's tensors; null if only there.
  // Positions count from element `origin`.
  std::vector<Stack> Stacks(Range range, const std::vector<const void*>& runs, void* out,
                            int64_t origin, bool is_past_caches = false) const;
  // From now on own values are in Work().
  void SetCombined() { is_in_work_ = true; }

  // Writes a packed run of final results to the caller's tensors, where they aren't there already.
  void Deliver(Range range, const void* results);
  // The result of one leaf alone.
  void DeliverInputs();

 private:
  // One tensor is its own packed buffer, unless peers must find it in the transport's memory.
  bool IsPackedAlready() const {
    return num_segments() == 1 && !context_.transport.requires_workspace();
  }
  // Copies of own values to `to`, one piece a segment.
  std::vector<Piece> PackingOf(Range range, char* to) const;
  // The address of element `position` of the packed vector, which lies in segment `segment`.
  const void* Own(int64_t segment, int64_t position) const;
  void* Output(int64_t segment, int64_t position) const;

  const LeafTensors& tensors_;
  const CollectiveContext& context_;
  const int64_t element_bytes_;
  // The working buffer and the range it holds.
  char* work_ = nullptr;
  Range range_;
  // Whether this leaf's current values are in work_, or still in the caller's inputs.
  bool is_in_work_ = false;
};

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_FUSION_BUFFER_H_
