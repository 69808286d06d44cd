#include "cc/algorithms/direct.h"

#include <algorithm>
#include <vector>

#include "cc/algorithms/chunks.h"
#include "cc/algorithms/combine_tree.h"
#include "cc/algorithms/for_each_peer.h"
#include "cc/algorithms/fusion_buffer.h"
#include "cc/algorithms/schedule.h"
#include "cc/algorithms/weights_of_leaves.h"
#include "cc/core/bytes.h"

namespace adasum {
namespace {

// Packed chunks and results lie in rings of slots, which stay in a cache however long the vector
// is. Receiving packed chunk i + 2 from a peer proves that the peer finished chunk i.
constexpr int64_t kLeastSlots = 2;
// Receiving result i + 1 from all peers proves that they have read result i.
constexpr int64_t kResultSlots = 2;

// One allreduce of a vector of B bytes on N leaves, in chunks of S bytes of every part. Passes over
// memory, where slots of S bytes stay in a cache:
// * products: packs what the peers combine (reads B (N - 1) / N, writes slots), and reads the own
//   part (B / N) beside the peers' packed ones (slots);
// * combination: the same again, but the last num_slots_ chunks are still packed; writes the own
//   part for the caller (B / N) and for the peers (slots), and delivers the peers' parts (reads
//   slots, writes B (N - 1) / N).
// A vector is read twice from memory and written once, for any N; without products it is read once.
class Direct {
 public:
  Direct(const LeafTensors& tensors, const CollectiveContext& context)
      : tensors_(tensors),
        context_(context),
        reduction_(context.reduction),
        transport_(context.transport),
        arithmetic_(context.arithmetic),
        scratch_(context.scratch),
        buffer_(tensors, context),
        rank_(transport_.rank()),
        size_(transport_.size()),
        tree_(MakeTree(size_)),
        chunks_(MakeChunks()),
        slice_bytes_(buffer_.Bytes(chunks_.Of(Part(0), 0))),
        slot_bytes_((size_ - 1) * slice_bytes_),
        num_slots_(std::min(std::max(kLeastSlots, context.tuning.packed_chunks / (size_ - 1)),
                            chunks_.size())),
        theirs_(chunks_.size() * size_) {}

  bool Run() {
    buffer_.Open({0, 0}, num_slots_ * slot_bytes_ + kResultSlots * slice_bytes_);
    if (reduction_.NeedsMoments() && !LearnWeights()) return false;
    CombineChunks();
    return true;
  }

 private:
  Range Part(int rank) const { return PartOf(rank, size_, buffer_.all().size()); }
  Chunks MakeChunks() const;

  // Sends `Send offer(peer)` to all peers, and only then receives: calls take(peer, address) with
  // what each sends, which has `Range wanted(peer)`. No message carries an empty range. Only the
  // last chunk of a part may be one, as parts differ in length by less than a chunk; its slots are
  // reused only behind a chunk that all peers receive.
  template <typename Offers, typename Wanted, typename Take>
  void Exchange(Offers offer, Wanted wanted, Take take) {
    ForEachPeer(transport_,
                [&](int peer) { transport_.Exchange(offer(peer), {peer, nullptr, 0}); });
    ForEachPeer(transport_, [&](int peer) {
      const int64_t num_bytes = buffer_.Bytes(wanted(peer));
      take(peer, transport_.Exchange({peer, nullptr, 0}, {peer, nullptr, num_bytes}));
    });
  }
  // Where this leaf packs what `peer` combines in chunk i.
  char* PackedSlot(int64_t i, int peer) const {
    return buffer_.Extra() + i % num_slots_ * slot_bytes_ + (peer - (peer > rank_)) * slice_bytes_;
  }
  char* ResultSlot(int64_t i) const {
    return buffer_.Extra() + num_slots_ * slot_bytes_ + i % kResultSlots * slice_bytes_;
  }
  const void*& Theirs(int64_t i, int peer) { return theirs_[i * size_ + peer]; }
  // Packed values of chunk i of the own part, of every leaf; null for the own, which are where they
  // are.
  std::vector<const void*> Runs(int64_t i);

  std::vector<Stack> Stacks(int64_t i, void* out) {
    const Range own = chunks_.keep(i);
    return buffer_.Stacks(own, Runs(i), out, Part(rank_).begin,
                          out != nullptr && scratch_.stores.IsPastCachesForAny());
  }

  bool LearnWeights();
  void Pack(int64_t i);
  void Offer(int64_t i);
  void CombineChunks();
  void CombineChunk(int64_t i);
  void GiveBack(int64_t i);

  const LeafTensors& tensors_;
  const CollectiveContext& context_;
  const Reduction& reduction_;
  Transport& transport_;
  Arithmetic& arithmetic_;
  LeafScratch& scratch_;
  FusionBuffer buffer_;
  const int rank_;
  const int size_;
  const std::vector<TreeNode> tree_;
  const Chunks chunks_;        // of every part; as many on all leaves
  const int64_t slice_bytes_;  // of one part, at most
  const int64_t slot_bytes_;   // of all parts but the own
  const int64_t num_slots_;
  std::vector<const void*> theirs_;  // of every chunk, what every peer gives
  std::vector<double> weights_;      // of every segment, those of all leaves
};

Chunks Direct::MakeChunks() const {
  constexpr int64_t kLine = 64;  // elements: whole cache lines of every dtype
  const int64_t bytes = context_.tuning.chunk_bytes * arithmetic_.Width();
  const int64_t chunk = buffer_.Elements(bytes) / kLine * kLine;
  return {Part(rank_), {}, chunk, Part(0).size()};  // no part is longer than the first
}

// The other leaves' parts of this leaf's vector.
void Direct::Pack(int64_t i) {
  ForEachPeer(transport_, [&](int peer) {
    buffer_.PackedFor(peer, chunks_.Of(Part(peer), i), PackedSlot(i, peer));
  });
}

void Direct::Offer(int64_t i) {
  Pack(i);
  Exchange(
      [&](int peer) {
        return Send{peer, PackedSlot(i, peer), buffer_.Bytes(chunks_.Of(Part(peer), i))};
      },
      [&](int) { return chunks_.keep(i); },
      [&](int peer, const void* theirs) { Theirs(i, peer) = theirs; });
}

std::vector<const void*> Direct::Runs(int64_t i) {
  return RunsOfLeaves(rank_, size_, [&](int peer) { return Theirs(i, peer); });
}

bool Direct::LearnWeights() {
  std::vector<double> grams(buffer_.num_segments() * GramSize(size_));
  for (int64_t i = 0; i < chunks_.size(); ++i) {
    Offer(i);
    arithmetic_.AddGrams(buffer_.dtype(), size_, Stacks(i, nullptr), grams.data());
  }
  return WeightsOfLeaves(tensors_, context_, tree_, std::move(grams), &weights_);
}

// From the last chunk to the first: the last chunks are still in the cache. Slots are reused
// round-robin: receiving chunk i proves that the peers finished chunk i + 2, so that a packed slot
// is free after num_slots_ chunks, and a result's slot after kResultSlots.
void Direct::CombineChunks() {
  const int64_t num_chunks = chunks_.size();
  const bool were_offered = reduction_.NeedsMoments();
  const int64_t first_packed = were_offered ? num_chunks - num_slots_ : num_chunks;
  for (int64_t i = num_chunks - 1; i >= 0; --i) {
    if (i < first_packed) {
      // To the slot in which the peers found it before; the result tells them that it is back.
      were_offered ? Pack(i) : Offer(i);
    }
    if (i + 1 < num_chunks) GiveBack(i + 1);
    CombineChunk(i);
  }
  GiveBack(0);
}

void Direct::CombineChunk(int64_t i) {
  if (reduction_.NeedsMoments()) {
    return arithmetic_.CombineStacks(buffer_.dtype(), size_, Stacks(i, ResultSlot(i)),
                                     weights_.data());
  }
  const Range own = chunks_.keep(i);
  char* const between = static_cast<char*>(scratch_.receive.Get(BytesBetween(size_, arithmetic_)));
  CombineTree(buffer_, context_, tree_, own, Runs(i), ResultSlot(i), between,
              scratch_.stores.IsPastCachesForAny());
}

// Everybody fetches every part of the result.
void Direct::GiveBack(int64_t i) {
  const int64_t own_bytes = buffer_.Bytes(chunks_.keep(i));
  Exchange(
      [&](int peer) { return Send{peer, ResultSlot(i), own_bytes}; },
      [&](int peer) { return chunks_.Of(Part(peer), i); },
      [&](int peer, const void* result) { buffer_.Deliver(chunks_.Of(Part(peer), i), result); });
}

}  // namespace

bool DirectAllreduce(const LeafTensors& tensors, const CollectiveContext& context) {
  return Direct(tensors, context).Run();
}

}  // namespace adasum
