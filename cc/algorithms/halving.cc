#include "cc/algorithms/halving.h"

#include <algorithm>

#include "cc/core/bytes.h"

namespace adasum {

void Traversed::Gather(const Level& level, Range keep, const void* result, Range give) const {
  // Where the peer's result can't be read, or others want it from this leaf: those of the levels
  // before, or a folded leaf.
  void* place = leaf.Holds(give) ? leaf.Work(give) : nullptr;
  const void* theirs = transport.Exchange({level.peer, result, leaf.Bytes(keep)},
                                          {level.peer, place, leaf.Bytes(give)});
  bool is_passed_on = level.distance > 1 || schedule.fold == Fold::kTakes;
  if (is_passed_on && theirs != place) {
    arithmetic.Copy(place, theirs, leaf.Bytes(give));
    theirs = place;
  }
  leaf.Deliver(give, theirs);
}

Halving::Halving(const Traversed& traversed, const Level& level)
    : in_(traversed),
      level_(level),
      is_last_(level.distance == traversed.schedule.levels.back().distance),
      steps_(traversed.StepsWith(level.peer, level.keep, level.give)),
      packs_twice_(level.distance == 1 && traversed.transport.needs_workspace() &&
                   traversed.transport.CanRead(level.peer) && steps_.size() > Turns::kPacked),
      given_(steps_.size()),
      theirs_(steps_.size()),
      moments_(traversed.scratch.moments) {
  moments_.assign(traversed.reduction.NeedsMoments() ? traversed.leaf.num_segments() : 0, {});
}

void Halving::Run() {
  if (packs_twice_ && moments_.empty()) {
    first_packed_ = steps_.size();  // nothing to learn of the whole first
  } else {
    ExchangeSteps();
    SumOverBlock();
    if (packs_twice_) first_packed_ = steps_.size() - Turns::kPacked;
  }
  CombineSteps();
  in_.leaf.SetCombined();
}

void Halving::Pack(int64_t i) {
  given_[i] = PackedStep(i);
  in_.transport.Announce(1);
}

const void* Halving::PackedStep(int64_t i) {
  const Turns& turns = in_.turns;
  Range give = steps_.give(i);
  char* place = level_.distance == 1 && turns.packed != nullptr
                    ? turns.packed + (i % Turns::kPacked) * turns.bytes
                    : in_.leaf.Work(give);
  return in_.leaf.Packed(give, place);
}

void Halving::Offer(int64_t i) {
  Range keep = steps_.keep(i), give = steps_.give(i);
  char* place = in_.transport.CanRead(level_.peer)
                    ? nullptr
                    : in_.Landing(in_.leaf.Bytes(level_.keep)) +
                          in_.leaf.Bytes({level_.keep.begin, keep.begin});
  theirs_[i] = in_.transport.Exchange({level_.peer, given_[i], in_.leaf.Bytes(give)},
                                      {level_.peer, place, in_.leaf.Bytes(keep)});
}

// Each side learns what it needs to know of the other's vector. What a step gives is packed before
// the moments of the steps in front of it, so that its exchange has no need to wait for them.
void Halving::ExchangeSteps() {
  const int64_t ahead = in_.arithmetic.StepsAhead();
  for (int64_t i = -ahead; i < steps_.size(); ++i) {
    if (i + ahead < steps_.size()) Pack(i + ahead);
    if (i < 0) continue;
    Offer(i);
    if (moments_.empty()) continue;
    in_.arithmetic.AddMoments(in_.leaf.dtype(), Pieces(i, nullptr, false), moments_.data());
  }
}

// Recursive doubling over the aligned block of 2 * distance ranks that hold the two vectors. Both
// sides of each exchange add the same two numbers, so all ranks end with the same bits.
void Halving::SumOverBlock() {
  if (moments_.empty()) return;
  in_.arithmetic.AwaitMoments();
  std::vector<Moments>& theirs = in_.scratch.their_moments;
  theirs.resize(moments_.size());
  int64_t num_bytes = static_cast<int64_t>(moments_.size() * sizeof(Moments));
  for (int round = 1; round <= level_.distance; round *= 2) {
    int peer = in_.transport.rank() ^ round;
    in_.transport.SendRecv({peer, moments_.data(), num_bytes}, {peer, theirs.data(), num_bytes});
    for (size_t i = 0; i < moments_.size(); ++i) {
      moments_[i].dot += theirs[i].dot;
      moments_[i].left_norm2 += theirs[i].left_norm2;
      moments_[i].right_norm2 += theirs[i].right_norm2;
    }
  }
}

// From the last step to the first: the last are what the cache still has. When this rank hears of
// a step, the peer has done with everything two steps before in this order, so that places taken
// in turn are free, kPacked steps later. Where arithmetic works ahead, results go back that many
// steps later.
void Halving::CombineSteps() {
  const int64_t num_steps = steps_.size();
  const int64_t ahead = in_.arithmetic.StepsAhead();
  for (int64_t i = num_steps - 1; i >= 0; --i) {
    const bool is_returning = is_last_ && i + 1 + ahead < num_steps;
    if (i < first_packed_) {
      if (moments_.empty()) {
        Pack(i);
        Offer(i);
      } else {
        // That of the steps that stayed it has combined the first, whose place is taken now.
        if (!is_last_ && i == first_packed_ - 1) in_.transport.Meet(level_.peer);
        PackedStep(i);  // to where the peer found it before
        if (!is_returning) in_.transport.Meet(level_.peer);
      }
    }
    if (is_returning) GiveBack(i + 1 + ahead);
    CombineStep(i);
    if (is_last_) in_.transport.Announce(1);
  }
  for (int64_t i = std::min(ahead, num_steps - 1); is_last_ && i >= 0; --i) GiveBack(i);
}

void Halving::CombineStep(int64_t i) {
  const std::vector<Piece> pieces = Pieces(i, in_.leaf.Work(steps_.keep(i)), is_last_);
  in_.reduction.Combine({in_.leaf.dtype(), pieces,
                         CountLeaves(in_.transport.rank(), in_.transport.size(), level_.distance),
                         is_last_, moments_, in_.arithmetic});
}

std::vector<Piece> Halving::Pieces(int64_t i, void* out, bool is_final) const {
  const void* left = level_.is_left ? nullptr : theirs_[i];
  const void* right = level_.is_left ? theirs_[i] : nullptr;
  return in_.leaf.Pieces(steps_.keep(i), left, right, out, is_final);
}

// The peer needs the result, too.
void Halving::GiveBack(int64_t i) {
  const Range keep = steps_.keep(i);
  in_.Gather(level_, keep, in_.leaf.Work(keep), steps_.give(i));
}

}  // namespace adasum
