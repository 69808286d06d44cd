// One level of recursive halving: two leaves exchange halves of the range that both hold, and each
// combines the half that it keeps.
#ifndef ADASUM_ALGORITHMS_HALVING_H_
#define ADASUM_ALGORITHMS_HALVING_H_

#include <cstdint>
#include <vector>

#include "cc/algorithms/chunks.h"
#include "cc/algorithms/fusion_buffer.h"
#include "cc/algorithms/schedule.h"
#include "cc/core/arithmetic.h"
#include "cc/core/transport.h"
#include "cc/reductions/reduction.h"

namespace adasum {

// A ring of slots for packed chunks, which stay in a cache however long the vector is. There is
// none where every chunk has an address of its own.
struct SlotRing {
  static constexpr int64_t kSlots = kPackedChunks;

  char* SlotOf(int64_t chunk) const { return begin + chunk % kSlots * slot_bytes; }

  char* begin = nullptr;
  int64_t slot_bytes = 0;
};

// What all levels of one allreduce work with. Everything must outlive it.
struct HalvingContext : CollectiveContext {
  const Schedule& schedule;
  FusionBuffer& buffer;
  NormsOnTheWay& norms;
  SlotRing slots;

  Chunks ChunksWith(int peer, Range keep, Range give) const {
    return {keep, give, buffer.Elements(ChunkBytesWith(peer, transport, arithmetic))};
  }
  // For bytes of peers that can't be read in place.
  char* ReceiveBuffer(int64_t num_bytes) const {
    return static_cast<char*>(scratch.receive.Get(num_bytes));
  }
  // Posts and makes an exchange: sends the result of `keep`, receives that of `give` and delivers
  // it.
  void PostGather(const Level& level, Range keep, Range give) const;
  void Gather(const Level& level, Range keep, Range give) const;

 private:
  Send SendOf(const Level& level, Range keep) const;
  Recv RecvOf(const Level& level, Range give) const;
};

class Halving {
 public:
  // `level` is one of context.schedule.levels, or a fold: distance 0, nothing to give.
  Halving(const HalvingContext& context, const Level& level);

  // The last level also returns its result to the peer.
  void Run();

 private:
  void ExchangeChunks();
  void SumOverBlock();
  LeafCounts LeavesThatMeet() const;
  void CombineChunks();
  void CombineChunk(int64_t i);
  void PostResult(int64_t i);
  void GiveBack(int64_t i);
  void Pack(int64_t i);
  // The exchange of chunk i: what is packed of it for the peer's.
  Send SendOf(int64_t i) const;
  Recv RecvOf(int64_t i) const;
  void Offer(int64_t i);
  const void* PackedChunk(int64_t i);
  std::vector<Piece> Pieces(int64_t i, void* out, bool is_final) const;

  const HalvingContext& in_;
  const Level& level_;
  const bool is_last_;
  const Chunks chunks_;
  // How many chunks are packed, or combined, before the exchange that needs the first of them.
  const int64_t ahead_;
  // Whether chunks are packed twice, for the moments and again for the combination, since memory
  // for all of them would not stay in the cache. The peer decides alike.
  const bool packs_twice_;
  // From here on packed chunks stay from the moments to the combination.
  int64_t first_packed_ = 0;
  // Of every chunk, what this leaf gives, and what the peer gives.
  std::vector<const void*> given_;
  std::vector<const void*> theirs_;
  std::vector<Moments>& moments_;
};

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_HALVING_H_
