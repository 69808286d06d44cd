// The tensors of all leaves, where they lie: memory that every leaf can read and write.
#ifndef ADASUM_ALGORITHMS_SHARED_TENSORS_H_
#define ADASUM_ALGORITHMS_SHARED_TENSORS_H_

#include <vector>

#include "cc/algorithms/collective_context.h"

namespace adasum {

// Tensors of less than kLeastBytes are copied to the transport's workspace, and their results from
// there: they are many, and few of all bytes.
class SharedTensors {
 public:
  // From here on adasumrun's preloaded library puts tensors into the arena (arena/preload.cc).
  static constexpr int64_t kLeastBytes = int64_t{64} << 10;

  // All references must outlive this.
  SharedTensors(const LeafTensors& tensors, const CollectiveContext& context);
  SharedTensors(const SharedTensors&) = delete;
  SharedTensors& operator=(const SharedTensors&) = delete;

  // Collective. Learns where all leaves' tensors are, and that their inputs are there. Returns
  // false, on all leaves alike, if some lie where others can't reach them, or copies are too many.
  bool Find();

  const void* Input(int leaf, int64_t segment) const { return inputs_[leaf * size() + segment]; }
  void* Output(int leaf, int64_t segment) const { return outputs_[leaf * size() + segment]; }

  // Collective, after the last write: returns when all leaves have written, and the caller's
  // outputs hold the results.
  void Finish();
  // In place of Finish, if no leaf writes and all have read.
  void GiveUp() { context_.transport.LendTensors(false); }

 private:
  int64_t size() const { return tensors_.segments.size(); }
  int64_t Bytes(int64_t segment) const;
  bool IsCopied(int64_t segment) const { return Bytes(segment) < kLeastBytes; }
  bool IsWorthIt() const;
  // What a leaf shows the others: where its tensors are, then copies of inputs, then room for
  // results.
  void Fill(char* shown);
  // Returns false if one of the leaf's tensors can't be reached.
  bool Note(int leaf, char* shown);

  const LeafTensors& tensors_;
  const CollectiveContext& context_;
  const int64_t element_bytes_;
  int64_t copied_bytes_ = 0;
  std::vector<const void*> inputs_;  // of every leaf, its segments'
  std::vector<void*> outputs_;
};

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_SHARED_TENSORS_H_
