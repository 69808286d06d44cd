#include "cc/algorithms/at_once.h"

#include <algorithm>
#include <vector>

#include "cc/algorithms/packed_leaf.h"
#include "cc/algorithms/steps.h"
#include "cc/algorithms/tree_weights.h"
#include "cc/core/bytes.h"
#include "cc/core/schedule.h"

namespace adasum {
namespace {

// Steps take places in turn, so that these stay in a cache however long the vector is.
// So many parts of a step are packed and stay, from the products to the combination: peers may have
// them in their caches still. More of them, and longer vectors leave the caches; fewer, and a peer
// that shares no cache fetches twice what it could have kept.
constexpr int64_t kPackedParts = 8;
// A peer has done with one packed step when this leaf has heard of the next but one.
constexpr int64_t kLeastPacked = 2;
// All peers have read one result when this leaf has heard of the next from all of them.
constexpr int64_t kResults = 2;
// What is combined at a time where nodes of the tree follow each other.
constexpr int64_t kTileBytes = int64_t{32} << 10;

// One run for a vector of B bytes on N leaves, S bytes of every part at a time. Passes over memory:
// * products: what the peers combine is packed (reads B (N - 1) / N, writes S in turn), and the own
//   part is read beside the peers' packed ones (B / N + S in turn);
// * combination: the same again, for the last num_places_ steps without the packing; it writes the
//   own part for the caller (B / N) and for the peers (S in turn), whose parts are delivered (reads
//   S in turn, writes B (N - 1) / N).
// So a vector goes through the memory twice to be read and once to be written, whatever N. Without
// products it is read once.
class AtOnce {
 public:
  AtOnce(const LeafTensors& tensors, const CollectiveContext& context)
      : reduction_(context.reduction),
        transport_(context.transport),
        arithmetic_(context.arithmetic),
        scratch_(context.scratch),
        leaf_(tensors, context),
        rank_(transport_.rank()),
        size_(transport_.size()),
        tree_(MakeTree(size_)),
        steps_(MakeSteps()),
        slice_bytes_(leaf_.Bytes(steps_.Of(Part(0), 0))),
        place_bytes_((size_ - 1) * slice_bytes_),
        num_places_(std::min(std::max(kLeastPacked, kPackedParts / (size_ - 1)), steps_.size())),
        theirs_(steps_.size() * size_) {}

  bool Run() {
    leaf_.Open({0, 0}, num_places_ * place_bytes_ + kResults * slice_bytes_);
    if (reduction_.NeedsMoments() && !LearnWeights()) return false;
    CombineSteps();
    return true;
  }

 private:
  Range Part(int rank) const { return PartOf(rank, size_, leaf_.all().size()); }
  Steps MakeSteps() const;

  // Calls visit(peer) for all other leaves, those behind this one first: not all at the same.
  template <typename Visit>
  void ForEachPeer(Visit visit) const {
    for (int shift = 1; shift < size_; ++shift) visit((rank_ + shift) % size_);
  }
  // Sends `Send offer(peer)` to all, and then calls take(peer, address) with what each sends, which
  // has `Range wanted(peer)`: no leaf waits for another before all can hear from it. Nothing is
  // said of an empty range: the last step of a part may be one, and no place is waited for then
  // that is taken again before a step of which all hear.
  template <typename Offers, typename Wanted, typename Take>
  void Exchange(Offers offer, Wanted wanted, Take take) {
    ForEachPeer([&](int peer) { transport_.Exchange(offer(peer), {peer, nullptr, 0}); });
    ForEachPeer([&](int peer) {
      const int64_t num_bytes = leaf_.Bytes(wanted(peer));
      take(peer, transport_.Exchange({peer, nullptr, 0}, {peer, nullptr, num_bytes}));
    });
  }
  // Where this leaf packs what `peer` combines of step i.
  char* PackedPlace(int64_t i, int peer) const {
    return leaf_.Extra() + i % num_places_ * place_bytes_ + (peer - (peer > rank_)) * slice_bytes_;
  }
  char* ResultPlace(int64_t i) const {
    return leaf_.Extra() + num_places_ * place_bytes_ + i % kResults * slice_bytes_;
  }
  const void*& Theirs(int64_t i, int peer) { return theirs_[i * size_ + peer]; }
  // Packed values of step i of the own part from element `begin` on, of every leaf; null for the
  // own, which are where they are.
  std::vector<const void*> Runs(int64_t i, int64_t begin);

  std::vector<Stack> Stacks(int64_t i, void* out) {
    const Range own = steps_.keep(i);
    return leaf_.Stacks(own, Runs(i, own.begin), out);
  }

  bool LearnWeights();
  std::vector<double> SumOverLeaves(std::vector<double> grams);
  void Pack(int64_t i);
  void Offer(int64_t i);
  void CombineSteps();
  void CombineStep(int64_t i);
  void CombineTile(Range tile, std::vector<const void*> runs, char* result);
  void GiveBack(int64_t i);

  const Reduction& reduction_;
  Transport& transport_;
  Arithmetic& arithmetic_;
  LeafScratch& scratch_;
  PackedLeaf leaf_;
  const int rank_;
  const int size_;
  const std::vector<TreeNode> tree_;
  const Steps steps_;          // of every part: all leaves take as many
  const int64_t slice_bytes_;  // of one part, at most
  const int64_t place_bytes_;  // of all parts but the own
  const int64_t num_places_;
  std::vector<const void*> theirs_;  // of every step, what every peer gives
  std::vector<double> weights_;      // of every segment, those of all leaves
};

Steps AtOnce::MakeSteps() const {
  constexpr int64_t kLine = 64;  // elements: whole cache lines of every dtype
  const int64_t bytes = transport_.StepBytes(rank_ == 0 ? 1 : 0) * arithmetic_.Width();
  const int64_t step = leaf_.Elements(bytes) / kLine * kLine;
  return {Part(rank_), {}, step, Part(0).size()};  // no part is longer than the first
}

// The other leaves' parts of this leaf's vector.
void AtOnce::Pack(int64_t i) {
  ForEachPeer([&](int peer) { leaf_.Packed(steps_.Of(Part(peer), i), PackedPlace(i, peer)); });
}

void AtOnce::Offer(int64_t i) {
  Pack(i);
  Exchange(
      [&](int peer) {
        return Send{peer, PackedPlace(i, peer), leaf_.Bytes(steps_.Of(Part(peer), i))};
      },
      [&](int) { return steps_.keep(i); },
      [&](int peer, const void* theirs) { Theirs(i, peer) = theirs; });
}

std::vector<const void*> AtOnce::Runs(int64_t i, int64_t begin) {
  std::vector<const void*> runs(size_);
  const int64_t skip = leaf_.Bytes({steps_.keep(i).begin, begin});
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) runs[peer] = At(Theirs(i, peer), skip);
  }
  return runs;
}

bool AtOnce::LearnWeights() {
  const int64_t num_segments = leaf_.num_segments();
  std::vector<double> grams(num_segments * GramSize(size_));
  for (int64_t i = 0; i < steps_.size(); ++i) {
    Offer(i);
    arithmetic_.AddGrams(leaf_.dtype(), size_, Stacks(i, nullptr), grams.data());
  }
  grams = SumOverLeaves(std::move(grams));
  weights_.resize(num_segments * size_);
  for (int64_t segment = 0; segment < num_segments; ++segment) {
    if (!WeightsOfTree(reduction_, tree_, size_, leaf_.dtype(), &grams[segment * GramSize(size_)],
                       &weights_[segment * size_])) {
      return false;
    }
  }
  return true;
}

// In the order of the leaves, so that all have the same bits.
std::vector<double> AtOnce::SumOverLeaves(std::vector<double> grams) {
  const size_t count = grams.size();
  const int64_t num_bytes = static_cast<int64_t>(count * sizeof(double));
  std::vector<double> all(size_ * count);
  auto send = [&](int peer) { return Send{peer, grams.data(), num_bytes}; };
  auto receive = [&](int peer) { return Recv{peer, &all[peer * count], num_bytes}; };
  if (num_bytes <= transport_.ShortBytes()) {
    ForEachPeer([&](int peer) { transport_.SendRecv(send(peer), {peer, nullptr, 0}); });
    ForEachPeer([&](int peer) { transport_.SendRecv({peer, nullptr, 0}, receive(peer)); });
  } else {
    ForEachPeer([&](int peer) {
      transport_.SendRecv(send(peer), receive((2 * rank_ + size_ - peer) % size_));
    });
  }
  std::copy(grams.begin(), grams.end(), all.begin() + rank_ * count);
  std::vector<double> sums(all.begin(), all.begin() + count);
  for (size_t i = count; i < all.size(); ++i) sums[i % count] += all[i];
  return sums;
}

// From the last step to the first: the last are what the cache still has. When this leaf hears of
// a step, its peers have done with everything two steps before in this order, so that places taken
// in turn are free: a packed one, num_places_ steps later, a result's, kResults later.
void AtOnce::CombineSteps() {
  const int64_t num_steps = steps_.size();
  const bool is_known = reduction_.NeedsMoments();
  const int64_t first_packed = is_known ? num_steps - num_places_ : num_steps;
  for (int64_t i = num_steps - 1; i >= 0; --i) {
    if (i < first_packed) {
      // To where the peers found it before; that it is there again they hear with the result.
      is_known ? Pack(i) : Offer(i);
    }
    if (i + 1 < num_steps) GiveBack(i + 1);
    CombineStep(i);
  }
  GiveBack(0);
}

void AtOnce::CombineStep(int64_t i) {
  if (reduction_.NeedsMoments()) {
    return arithmetic_.CombineStacks(leaf_.dtype(), size_, Stacks(i, ResultPlace(i)),
                                     weights_.data());
  }
  // Node by node, as much at a time as stays in the first caches on the way.
  const Range own = steps_.keep(i);
  const int64_t tile = leaf_.Elements(kTileBytes * arithmetic_.Width());
  for (int64_t begin = own.begin; begin < own.end; begin += tile) {
    const Range part{begin, std::min(begin + tile, own.end)};
    CombineTile(part, Runs(i, begin), ResultPlace(i) + leaf_.Bytes({own.begin, begin}));
  }
}

void AtOnce::CombineTile(Range tile, std::vector<const void*> runs, char* result) {
  const int64_t tile_bytes = leaf_.Bytes(tile);
  char* const between = static_cast<char*>(scratch_.landing.Get(size_ * tile_bytes));
  for (const TreeNode& node : tree_) {
    char* const out = node.is_final ? result : between + node.left * tile_bytes;
    const std::vector<Piece> pieces =
        leaf_.Pieces(tile, runs[node.left], runs[node.right], out, node.is_final);
    reduction_.Combine({leaf_.dtype(), pieces, node.leaves, node.is_final, {}, arithmetic_});
    runs[node.left] = out;
  }
}

// Everybody fetches every part of the result.
void AtOnce::GiveBack(int64_t i) {
  const int64_t own_bytes = leaf_.Bytes(steps_.keep(i));
  Exchange([&](int peer) { return Send{peer, ResultPlace(i), own_bytes}; },
           [&](int peer) { return steps_.Of(Part(peer), i); },
           [&](int peer, const void* result) { leaf_.Deliver(steps_.Of(Part(peer), i), result); });
}

}  // namespace

bool ReduceAtOnce(const LeafTensors& tensors, const CollectiveContext& context) {
  return AtOnce(tensors, context).Run();
}

}  // namespace adasum
