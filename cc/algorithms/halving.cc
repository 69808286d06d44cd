#include "cc/algorithms/halving.h"

#include <algorithm>

#include "cc/core/bytes.h"

namespace adasum {

Send HalvingContext::SendOf(const Level& level, Range keep) const {
  return {level.peer, buffer.Work(keep), buffer.Bytes(keep)};
}

Recv HalvingContext::RecvOf(const Level& level, Range give) const {
  // Own memory where the peer's result can't be read, or where others get it from this leaf: the
  // peers of earlier levels, or a folded buffer.
  return {level.peer, buffer.Holds(give) ? buffer.Work(give) : nullptr, buffer.Bytes(give)};
}

void HalvingContext::PostGather(const Level& level, Range keep, Range give) const {
  transport.Post(SendOf(level, keep), RecvOf(level, give));
}

void HalvingContext::Gather(const Level& level, Range keep, Range give) const {
  const Recv recv = RecvOf(level, give);
  void* own = recv.bytes;
  const void* theirs = transport.Exchange(SendOf(level, keep), recv);
  bool is_passed_on = level.distance > 1 || schedule.fold == Fold::kTakes;
  if (is_passed_on && theirs != own) {
    arithmetic.Copy(own, theirs, buffer.Bytes(give));
    theirs = own;
  }
  buffer.Deliver(give, theirs);
}

Halving::Halving(const HalvingContext& context, const Level& level)
    : in_(context),
      level_(level),
      is_last_(level.distance == context.schedule.levels.back().distance),
      chunks_(context.ChunksWith(level.peer, level.keep, level.give)),
      ahead_(std::max<int64_t>(context.arithmetic.ChunksAhead(),
                               context.transport.MostPosted(level.peer))),
      packs_twice_(level.distance == 1 && SharesMemory(context.transport, level.peer) &&
                   chunks_.size() > SlotRing::kSlots),
      given_(chunks_.size()),
      theirs_(chunks_.size()),
      moments_(context.scratch.moments) {
  moments_.assign(context.reduction.NeedsMoments() ? context.buffer.num_segments() : 0, {});
}

void Halving::Run() {
  if (packs_twice_ && moments_.empty()) {
    first_packed_ = chunks_.size();  // without moments, one pass is enough
  } else {
    ExchangeChunks();
    SumOverBlock();
    if (packs_twice_) first_packed_ = chunks_.size() - SlotRing::kSlots;
  }
  CombineChunks();
  in_.buffer.SetCombined();
}

void Halving::Pack(int64_t i) {
  given_[i] = PackedChunk(i);
  in_.transport.Announce(1);
  in_.transport.Post(SendOf(i), RecvOf(i));
}

const void* Halving::PackedChunk(int64_t i) {
  const SlotRing& slots = in_.slots;
  Range give = chunks_.give(i);
  char* to =
      level_.distance == 1 && slots.begin != nullptr ? slots.SlotOf(i) : in_.buffer.Work(give);
  return in_.buffer.PackedFor(level_.peer, give, to);
}

Send Halving::SendOf(int64_t i) const {
  return {level_.peer, given_[i], in_.buffer.Bytes(chunks_.give(i))};
}

Recv Halving::RecvOf(int64_t i) const {
  const Range keep = chunks_.keep(i);
  char* received = in_.transport.CanRead(level_.peer)
                       ? nullptr
                       : in_.ReceiveBuffer(in_.buffer.Bytes(level_.keep)) +
                             in_.buffer.Bytes({level_.keep.begin, keep.begin});
  return {level_.peer, received, in_.buffer.Bytes(keep)};
}

void Halving::Offer(int64_t i) { theirs_[i] = in_.transport.Exchange(SendOf(i), RecvOf(i)); }

// Each side learns the moments of its half with the other's vector. Chunks are packed ahead of the
// moments of earlier chunks, so that the exchange of a chunk does not wait for those.
void Halving::ExchangeChunks() {
  for (int64_t i = -ahead_; i < chunks_.size(); ++i) {
    if (i + ahead_ < chunks_.size()) Pack(i + ahead_);
    if (i < 0) continue;
    Offer(i);
    if (moments_.empty()) continue;
    in_.arithmetic.AddMoments(in_.buffer.dtype(), Pieces(i, nullptr, false), moments_.data());
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
    if (in_.norms.is_wanted() && round == level_.distance) {  // the other vector's
      in_.norms.SwapMoments(in_.transport, peer, moments_, &theirs);
    } else {
      in_.transport.SendRecv({peer, moments_.data(), num_bytes}, {peer, theirs.data(), num_bytes});
    }
    for (size_t i = 0; i < moments_.size(); ++i) {
      moments_[i].dot += theirs[i].dot;
      moments_[i].left_norm2 += theirs[i].left_norm2;
      moments_[i].right_norm2 += theirs[i].right_norm2;
    }
  }
  if (in_.norms.is_wanted()) {
    in_.norms.Meet(in_.reduction, LeavesThatMeet(), level_.is_left, moments_);
  }
}

LeafCounts Halving::LeavesThatMeet() const {
  return CountLeaves(in_.transport.rank(), in_.transport.size(), level_.distance);
}

// From the last chunk to the first: the last chunks are still in the cache. Slots are reused
// round-robin: receiving chunk i proves that the peer finished chunk i + 2, so that a slot is free
// after kSlots chunks. Where the arithmetic works ahead, or exchanges are posted, results are
// returned that many chunks later.
void Halving::CombineChunks() {
  const int64_t num_chunks = chunks_.size();
  for (int64_t i = num_chunks - 1; i >= 0; --i) {
    const bool is_returning = is_last_ && i + 1 + ahead_ < num_chunks;
    if (i < first_packed_) {
      if (moments_.empty()) {
        Pack(i);
        Offer(i);
      } else {
        // The peer has combined the first of the chunks that stayed packed: its slot is reused now.
        if (!is_last_ && i == first_packed_ - 1) in_.transport.PairwiseBarrier(level_.peer);
        PackedChunk(i);  // to the slot in which the peer found it before
        if (!is_returning) in_.transport.PairwiseBarrier(level_.peer);
      }
    }
    if (is_returning) GiveBack(i + 1 + ahead_);
    CombineChunk(i);
    if (is_last_) PostResult(i);
  }
  for (int64_t i = std::min(ahead_, num_chunks - 1); is_last_ && i >= 0; --i) GiveBack(i);
}

void Halving::CombineChunk(int64_t i) {
  const std::vector<Piece> pieces = Pieces(i, in_.buffer.Work(chunks_.keep(i)), is_last_);
  in_.reduction.Combine(
      {in_.buffer.dtype(), pieces, LeavesThatMeet(), is_last_, moments_, in_.arithmetic});
}

std::vector<Piece> Halving::Pieces(int64_t i, void* out, bool is_final) const {
  const void* left = level_.is_left ? nullptr : theirs_[i];
  const void* right = level_.is_left ? theirs_[i] : nullptr;
  return in_.buffer.Pieces(chunks_.keep(i), left, right, out, is_final);
}

// The peer needs the result, too.
void Halving::PostResult(int64_t i) {
  in_.transport.Announce(1);
  in_.PostGather(level_, chunks_.keep(i), chunks_.give(i));
}

void Halving::GiveBack(int64_t i) { in_.Gather(level_, chunks_.keep(i), chunks_.give(i)); }

}  // namespace adasum
