// The tensors of all leaves, where they lie: memory that every leaf can read and write, or that it
// can have the system copy from and to.
#ifndef ADASUM_ALGORITHMS_SHARED_TENSORS_H_
#define ADASUM_ALGORITHMS_SHARED_TENSORS_H_

#include <vector>

#include "cc/algorithms/collective_context.h"

namespace adasum {

// How a leaf reaches the others' tensors.
enum class Reach {
  kNone,      // not at all: they are packed
  kMapped,    // as its own memory; SharedTensors::Input and Output
  kAddresses  // by Transport::Fetch and Store; InputAddress and OutputAddress
};

// Where tensors are mapped, those of less than kLeastBytes are copied to the transport's workspace,
// and their results from there: they are many, and few of all bytes.
class SharedTensors {
 public:
  // From here on adasumrun's preloaded library puts tensors into the arena (arena/preload.cc), and
  // lists are worth asking the others for addresses.
  static constexpr int64_t kLeastBytes = int64_t{64} << 10;

  // All must outlive this. `shares` are, of each leaf, the elements of which it alone wants the
  // result, whole segments; null: all want all.
  SharedTensors(const LeafTensors& tensors, const CollectiveContext& context,
                const std::vector<Range>* shares = nullptr);
  SharedTensors(const SharedTensors&) = delete;
  SharedTensors& operator=(const SharedTensors&) = delete;

  // Collective. Learns where all leaves' tensors are, and that their inputs are there. Returns the
  // same on all leaves.
  Reach Find();

  // What a leaf combines: its share, or its part of what all want.
  Range CombinedBy(int leaf) const;
  bool WantsResult(int leaf, int64_t segment) const;
  bool has_shares() const { return shares_ != nullptr; }

  // kMapped.
  const void* Input(int leaf, int64_t segment) const { return inputs_[leaf * size() + segment]; }
  void* Output(int leaf, int64_t segment) const { return outputs_[leaf * size() + segment]; }

  // kAddresses.
  int64_t InputAddress(int leaf, int64_t segment) const;
  int64_t OutputAddress(int leaf, int64_t segment) const;

  // Whether there was a choice between kNone and kAddresses; how long it took, for the next.
  bool had_choice() const { return had_choice_; }
  void NoteSeconds(Reach reach, double seconds);

  // Collective, after the last write: returns when all leaves have written, and the caller's
  // outputs hold the results.
  void Finish();
  // In place of Finish, if no leaf writes and all have read.
  void GiveUp() { context_.transport.LendTensors(false); }

 private:
  int64_t size() const { return tensors_.segments.size(); }
  int64_t Bytes(int64_t segment) const;
  CrossMemoryPolicy::Kind Kind() const;
  bool IsCopied(int64_t segment) const { return Bytes(segment) < kLeastBytes; }
  // What a leaf shows the others: what it has seen of copying, where its tensors are, then copies
  // of inputs, and room for results.
  int64_t ShownBytes() const;
  void Fill(char* shown);
  bool LetsOthersCopy() const;
  void FillCopies(char* copy) const;
  bool Map();
  // Returns false if one of the leaf's tensors can't be reached.
  bool MapLeaf(int leaf);
  // Whether all choose to copy, and may.
  bool ChooseToCopy();
  // Collective. Returns when all leaves have said something, and whether all said yes.
  bool AllSay(bool mine);

  const LeafTensors& tensors_;
  const CollectiveContext& context_;
  const std::vector<Range>* const shares_;
  const int64_t element_bytes_;
  int64_t copied_bytes_ = 0;
  bool may_map_ = false, may_copy_ = false;  // the same on all leaves
  bool is_mapped_ = false, had_choice_ = false;
  std::vector<char*> shown_;         // by every leaf
  std::vector<const void*> inputs_;  // of every leaf, its segments'
  std::vector<void*> outputs_;
};

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_SHARED_TENSORS_H_
