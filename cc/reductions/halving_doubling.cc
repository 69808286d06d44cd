#include "cc/reductions/halving_doubling.h"

#include <algorithm>

#include "cc/core/schedule.h"

namespace adasum {
namespace {

// The exchange of two ranges in steps: as many on both sides, though one range may be an element
// longer. A step is what a core still has in its cache when it comes to the next thing to do with
// it, where ranks read each other's memory; over a network it is as long as a message may be.
class Steps {
 public:
  Steps(Range keep, Range give, int64_t step) : keep_(keep), give_(give), step_(step) {}

  int64_t size() const { return (std::max(keep_.size(), give_.size()) + step_ - 1) / step_; }
  Range keep(int64_t i) const { return Part(keep_, i); }
  Range give(int64_t i) const { return Part(give_, i); }

 private:
  Range Part(Range range, int64_t i) const {
    return {std::min(range.begin + i * step_, range.end),
            std::min(range.begin + (i + 1) * step_, range.end)};
  }

  Range keep_, give_;
  int64_t step_;
};

// One run of the traversal. Passes over memory for a vector of B bytes, two leaves that read each
// other's memory: the half that the peer wants is packed (reads B/2, writes B/2), the moments
// read the own and the peer's half (B), the combination reads them again (B) and writes its half
// for the peer, in two steps' worth of memory in turn, and for the caller (B/2), the peer's half is
// delivered (reads B/2, writes B/2). Each step finds the peer's part of it in the cache.
class Traversal {
 public:
  Traversal(const Reduction& reduction, const LeafTensors& tensors, Transport& transport,
            Arithmetic& arithmetic, LeafScratch& scratch)
      : reduction_(reduction),
        transport_(transport),
        arithmetic_(arithmetic),
        scratch_(scratch),
        leaf_(tensors, transport, arithmetic, scratch),
        all_(leaf_.all()),
        schedule_(MakeSchedule(transport.rank(), transport.size(), all_.size())) {}

  void Run() {
    if (all_.size() == 0) return;
    if (transport_.size() == 1) return leaf_.DeliverInputs();
    Open();
    if (schedule_.fold == Fold::kGives) return GiveAll();
    if (schedule_.fold == Fold::kTakes) TakeFold();
    for (const Level& level : schedule_.levels) CombineHalf(level);
    for (auto level = schedule_.levels.rbegin() + 1; level < schedule_.levels.rend(); ++level) {
      Steps steps = StepsWith(level->peer, level->keep, level->give);
      for (int64_t i = 0; i < steps.size(); ++i) {
        Gather(*level, steps.keep(i), leaf_.Work(steps.keep(i)), steps.give(i));
      }
    }
    if (schedule_.fold == Fold::kTakes) ReturnToFolded();
  }

 private:
  // Every core has a cache of its own.
  int64_t StepBytes(int peer) const { return transport_.StepBytes(peer) * arithmetic_.Width(); }

  Steps StepsWith(int peer, Range keep, Range give) const {
    return {keep, give, leaf_.Elements(StepBytes(peer))};
  }

  void Open() {
    // Of two leaves alone, each needs its result only until the peer has read it: when a step's
    // exchange returns, the peer has read the step before, so that two places are enough.
    uses_ring_ = transport_.needs_workspace() && transport_.size() == 2;
    if (!uses_ring_) return leaf_.Open(all_, 0);
    const Level& level = schedule_.levels[0];
    int64_t step_bytes = std::min(StepBytes(level.peer), leaf_.Bytes(level.keep));
    leaf_.Open(level.give, 2 * step_bytes);
  }

  // Where the own part of a level's step i is combined.
  char* ResultPlace(Range keep, int64_t i) const {
    if (!uses_ring_) return leaf_.Work(keep);
    return leaf_.Extra() + (i % 2) * StepBytes(schedule_.levels[0].peer);
  }

  // A leaf beyond the power of two gives everything away and hears the result last.
  void GiveAll() {
    int peer = schedule_.fold_peer;
    Steps steps = StepsWith(peer, {}, all_);
    for (int64_t i = 0; i < steps.size(); ++i) {
      Range part = steps.give(i);
      transport_.Exchange({peer, leaf_.Packed(part), leaf_.Bytes(part)}, {peer, nullptr, 0});
    }
    for (int64_t i = 0; i < steps.size(); ++i) {
      Range part = steps.give(i);
      void* landing = leaf_.WorksInOutput() ? leaf_.Work(part) : Landing(leaf_.Bytes(part));
      leaf_.Deliver(part,
                    transport_.Exchange({peer, nullptr, 0}, {peer, landing, leaf_.Bytes(part)}));
    }
  }

  void TakeFold() {
    // Both vectors are here whole: there is nobody to sum the moments with, at distance 0.
    Level fold{0, schedule_.fold_peer, all_, {}, true};
    CombineHalf(fold);
  }

  // The first half of a meeting: each side learns what it needs to know of the other's vector.
  std::vector<const void*> ExchangeHalves(const Level& level, const Steps& steps,
                                          std::vector<Moments>* moments) {
    char* landing = static_cast<char*>(Landing(leaf_.Bytes(level.keep)));
    std::vector<const void*> theirs;
    for (int64_t i = 0; i < steps.size(); ++i) {
      Range keep = steps.keep(i), give = steps.give(i);
      theirs.push_back(transport_.Exchange(
          {level.peer, leaf_.Packed(give), leaf_.Bytes(give)},
          {level.peer, landing + leaf_.Bytes({level.keep.begin, keep.begin}), leaf_.Bytes(keep)}));
      if (!reduction_.NeedsMoments()) continue;
      arithmetic_.AddMoments(leaf_.dtype(),
                             leaf_.Pieces(keep, theirs[i], level.is_left, nullptr, false),
                             moments->data());
    }
    return theirs;
  }

  // The second half: combines what this leaf keeps. The last level's result is final and goes back
  // to the peer at once.
  void CombineHalf(const Level& level) {
    const bool is_last = level.distance == schedule_.levels.back().distance;
    const Steps steps = StepsWith(level.peer, level.keep, level.give);
    std::vector<Moments> moments(reduction_.NeedsMoments() ? leaf_.num_segments() : 0);
    std::vector<const void*> theirs = ExchangeHalves(level, steps, &moments);
    SumOverBlock(level.distance, &moments);
    const LeafCounts leaves = CountLeaves(level);
    for (int64_t i = 0; i < steps.size(); ++i) {
      Range keep = steps.keep(i);
      char* result = ResultPlace(keep, i);
      std::vector<Piece> pieces = leaf_.Pieces(keep, theirs[i], level.is_left, result, is_last);
      reduction_.Combine({leaf_.dtype(), pieces, leaves, is_last, moments, arithmetic_});
      if (is_last) Gather(level, keep, result, steps.give(i));
    }
    leaf_.SetCombined();
  }

  // Leaves in the two subtrees that meet at this level: `distance` neighbours each, and those
  // that folded into them.
  LeafCounts CountLeaves(const Level& level) const {
    if (level.distance == 0) return {1, 1};
    int power = 2 << (schedule_.levels.size() - 1);
    int num_folded = transport_.size() - power;
    int first = transport_.rank() & ~(2 * level.distance - 1);
    auto count = [&](int begin) {
      int folded = std::min(std::max(num_folded - begin, 0), level.distance);
      return level.distance + folded;
    };
    return {count(first), count(first + level.distance)};
  }

  // Recursive doubling over the aligned block of 2 * distance ranks that hold the two vectors.
  // Both sides of each exchange add the same two numbers, so all ranks end with the same bits.
  void SumOverBlock(int distance, std::vector<Moments>* moments) {
    if (moments->empty()) return;
    std::vector<Moments> theirs(moments->size());
    int64_t num_bytes = static_cast<int64_t>(moments->size() * sizeof(Moments));
    for (int round = 1; round <= distance; round *= 2) {
      int peer = transport_.rank() ^ round;
      transport_.SendRecv({peer, moments->data(), num_bytes}, {peer, theirs.data(), num_bytes});
      for (size_t i = 0; i < moments->size(); ++i) {
        (*moments)[i].dot += theirs[i].dot;
        (*moments)[i].left_norm2 += theirs[i].left_norm2;
        (*moments)[i].right_norm2 += theirs[i].right_norm2;
      }
    }
  }

  // Sends the result of `keep`, receives that of `give` and delivers it.
  void Gather(const Level& level, Range keep, const void* result, Range give) {
    const void* theirs = transport_.Exchange({level.peer, result, leaf_.Bytes(keep)},
                                             {level.peer, leaf_.Work(give), leaf_.Bytes(give)});
    // Others want it from this leaf: those of the levels before, or a folded leaf.
    bool is_passed_on = level.distance > 1 || schedule_.fold == Fold::kTakes;
    if (is_passed_on && theirs != leaf_.Work(give)) {
      arithmetic_.Copy(leaf_.Work(give), theirs, leaf_.Bytes(give));
      theirs = leaf_.Work(give);
    }
    leaf_.Deliver(give, theirs);
  }

  void ReturnToFolded() {
    int peer = schedule_.fold_peer;
    Steps steps = StepsWith(peer, all_, {});
    for (int64_t i = 0; i < steps.size(); ++i) {
      Range part = steps.keep(i);
      transport_.Exchange({peer, leaf_.Work(part), leaf_.Bytes(part)}, {peer, nullptr, 0});
    }
  }

  // Where peers' bytes arrive that can't be read where they are.
  void* Landing(int64_t num_bytes) { return scratch_.landing.Get(num_bytes); }

  const Reduction& reduction_;
  Transport& transport_;
  Arithmetic& arithmetic_;
  LeafScratch& scratch_;
  PackedLeaf leaf_;
  const Range all_;
  const Schedule schedule_;
  bool uses_ring_ = false;
};

}  // namespace

void HalvingDoubling(const Reduction& reduction, const LeafTensors& tensors, Transport& transport,
                     Arithmetic& arithmetic, LeafScratch& scratch) {
  Traversal(reduction, tensors, transport, arithmetic, scratch).Run();
}

}  // namespace adasum
