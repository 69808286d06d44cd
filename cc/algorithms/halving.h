// One level on the way down the tree: two leaves exchange halves of what both have, and each
// combines the half that it keeps.
#ifndef ADASUM_ALGORITHMS_HALVING_H_
#define ADASUM_ALGORITHMS_HALVING_H_

#include <cstdint>
#include <vector>

#include "cc/algorithms/packed_leaf.h"
#include "cc/algorithms/steps.h"
#include "cc/core/arithmetic.h"
#include "cc/core/schedule.h"
#include "cc/core/transport.h"
#include "cc/reductions/reduction.h"

namespace adasum {

// Places behind a leaf's working buffer that its steps take in turn, so that they stay in a cache
// however long the vector is; null where the vector has a place of its own for every step.
struct Turns {
  // As many steps as are packed and stay, from the moments to the combination: a peer may have them
  // in its cache still. More of them, and longer vectors leave the caches; fewer, and a peer that
  // shares no cache fetches twice what it could have kept.
  static constexpr int64_t kPacked = 8;

  char* packed = nullptr;
  int64_t bytes = 0;  // of one place
};

// What all levels of one traversal work with. Everything must outlive it.
struct Traversed : CollectiveContext {
  const Schedule& schedule;
  PackedLeaf& leaf;
  Turns turns;

  // Every core has a cache of its own.
  int64_t StepBytes(int peer) const { return transport.StepBytes(peer) * arithmetic.Width(); }
  Steps StepsWith(int peer, Range keep, Range give) const {
    return {keep, give, leaf.Elements(StepBytes(peer))};
  }
  // Where peers' bytes arrive that can't be read where they are.
  char* Landing(int64_t num_bytes) const {
    return static_cast<char*>(scratch.landing.Get(num_bytes));
  }
  // Sends the result of `keep`, receives that of `give` and delivers it.
  void Gather(const Level& level, Range keep, const void* result, Range give) const;
};

class Halving {
 public:
  // `level` is one of traversed.schedule.levels, or a fold: distance 0, nothing to give.
  Halving(const Traversed& traversed, const Level& level);

  // If the level is the last one, its result goes back to the peer at once.
  void Run();

 private:
  void ExchangeSteps();
  void SumOverBlock();
  void CombineSteps();
  void CombineStep(int64_t i);
  void GiveBack(int64_t i);
  void Pack(int64_t i);
  void Offer(int64_t i);
  const void* PackedStep(int64_t i);
  std::vector<Piece> Pieces(int64_t i, void* out, bool is_final) const;

  const Traversed& in_;
  const Level& level_;
  const bool is_last_;
  const Steps steps_;
  // Whether steps are packed twice, for the moments and again for the combination, since memory
  // for all of them would not stay in the cache. A decision that the peer must make alike.
  const bool packs_twice_;
  // From here on packed steps stay from the moments to the combination.
  int64_t first_packed_ = 0;
  // Of every step, what this leaf gives, and what the peer gives.
  std::vector<const void*> given_;
  std::vector<const void*> theirs_;
  std::vector<Moments>& moments_;
};

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_HALVING_H_
