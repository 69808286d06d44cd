#include "cc/algorithms/halving_doubling.h"

#include <algorithm>
#include <vector>

#include "cc/algorithms/halving.h"
#include "cc/algorithms/schedule.h"

namespace adasum {
namespace {

// One allreduce. Passes over memory for a vector of B bytes at the first level, with a leaf whose
// memory can be read, in chunks of S bytes so that the peer's part stays in the cache:
//   moments: packs the half that the peer wants (reads B/2, writes slots of S bytes), and reads the
//     own half (B/2) beside the peer's packed one (slots);
//   combination: the same again, but the last kSlots chunks are still packed; writes B/2.
// Every further level reads half as much: the own values are packed by then.
class Allreduce {
 public:
  Allreduce(const LeafTensors& tensors, const CollectiveContext& context)
      : transport_(context.transport),
        buffer_(tensors, context),
        norms_(tensors.norms, tensors.segments.size(), context.scratch.norms),
        all_(buffer_.all()),
        schedule_(MakeSchedule(transport_.rank(), transport_.size(), all_.size())),
        context_{context, schedule_, buffer_, norms_, {}} {}

  void Run() {
    Open();
    if (schedule_.fold == Fold::kGives) return GiveAll();
    if (schedule_.fold == Fold::kTakes) TakeFold();
    for (const Level& level : schedule_.levels) Halving(context_, level).Run();
    for (auto level = schedule_.levels.rbegin() + 1; level < schedule_.levels.rend(); ++level) {
      Chunks chunks = context_.ChunksWith(level->peer, level->keep, level->give);
      transport_.Announce(chunks.size());  // what was received is delivered meanwhile
      const int64_t ahead = transport_.MostPosted(level->peer);
      for (int64_t i = -ahead; i < chunks.size(); ++i) {
        const int64_t next = i + ahead;
        if (next < chunks.size()) context_.PostGather(*level, chunks.keep(next), chunks.give(next));
        if (i >= 0) context_.Gather(*level, chunks.keep(i), chunks.give(i));
      }
    }
    if (schedule_.fold == Fold::kTakes) ReturnToFolded();
  }

 private:
  void Open() {
    if (schedule_.fold != Fold::kNone || !SharesMemory(transport_, schedule_.levels[0].peer)) {
      return buffer_.Open(all_, 0);
    }
    // The peer of the first level, the only one to want packed inputs, reads them chunk by chunk.
    const Level& first = schedule_.levels[0];
    const Chunks chunks = context_.ChunksWith(first.peer, first.keep, first.give);
    const int64_t bytes = std::max(buffer_.Bytes(chunks.keep(0)), buffer_.Bytes(chunks.give(0)));
    buffer_.Open(first.keep, std::min(SlotRing::kSlots, chunks.size()) * bytes);
    context_.slots = {buffer_.Extra(), bytes};
  }

  // A leaf beyond the power of two gives everything away and receives the result last.
  void GiveAll() {
    const int peer = schedule_.fold_peer;
    const Chunks chunks = context_.ChunksWith(peer, {}, all_);
    std::vector<const void*> packed(chunks.size());
    auto send = [&](int64_t i) {
      const Range part = chunks.give(i);
      if (packed[i] == nullptr) packed[i] = buffer_.Packed(part, buffer_.Work(part));
      return Send{peer, packed[i], buffer_.Bytes(part)};
    };
    ExchangeAhead(
        chunks.size(), peer, send, [&](int64_t) { return Recv{peer, nullptr, 0}; },
        [](int64_t, const void*) {});
    if (norms_.is_wanted()) {
      transport_.SendRecv({peer, nullptr, 0}, {peer, norms_.to_find(), norms_.found_bytes()});
    }
    ReceiveAll(chunks);
  }

  void ReceiveAll(const Chunks& chunks) {
    const int peer = schedule_.fold_peer;
    // As many chunks as are under way at a time.
    const int64_t num_slots = std::min(1 + transport_.MostPosted(peer), chunks.size());
    const int64_t slot_bytes = buffer_.Bytes(chunks.give(0));
    char* slots =
        buffer_.WorksInOutput() ? nullptr : context_.ReceiveBuffer(num_slots * slot_bytes);
    auto recv = [&](int64_t i) {
      const Range part = chunks.give(i);
      void* to = slots == nullptr ? buffer_.Work(part) : slots + i % num_slots * slot_bytes;
      return Recv{peer, to, buffer_.Bytes(part)};
    };
    ExchangeAhead(
        chunks.size(), peer, [&](int64_t) { return Send{peer, nullptr, 0}; }, recv,
        [&](int64_t i, const void* received) { buffer_.Deliver(chunks.give(i), received); });
  }

  // Exchanges chunks 0, 1, ..., posted ahead where the transport takes that, and calls
  // use(i, theirs) for each.
  template <typename MakeSend, typename MakeRecv, typename Use>
  void ExchangeAhead(int64_t num_chunks, int peer, MakeSend send, MakeRecv recv, Use use) {
    const int64_t ahead = transport_.MostPosted(peer);
    for (int64_t i = -ahead; i < num_chunks; ++i) {
      const int64_t next = i + ahead;
      if (next < num_chunks) transport_.Post(send(next), recv(next));
      if (i >= 0) use(i, transport_.Exchange(send(i), recv(i)));
    }
  }

  void TakeFold() {
    // This leaf has both vectors whole: at distance 0 no rank adds to the moments.
    Level fold{0, schedule_.fold_peer, all_, {}, true};
    Halving(context_, fold).Run();
  }

  void ReturnToFolded() {
    const int peer = schedule_.fold_peer;
    // The one message that is there for the norms alone: results go from where they lie.
    if (norms_.is_wanted()) {
      transport_.SendRecv({peer, norms_.found(), norms_.found_bytes()}, {peer, nullptr, 0});
    }
    const Chunks chunks = context_.ChunksWith(peer, all_, {});
    transport_.Announce(chunks.size());
    auto send = [&](int64_t i) {
      return Send{peer, buffer_.Work(chunks.keep(i)), buffer_.Bytes(chunks.keep(i))};
    };
    ExchangeAhead(
        chunks.size(), peer, send, [&](int64_t) { return Recv{peer, nullptr, 0}; },
        [](int64_t, const void*) {});
  }

  Transport& transport_;
  FusionBuffer buffer_;
  NormsOnTheWay norms_;
  const Range all_;
  const Schedule schedule_;
  HalvingContext context_;
};

}  // namespace

void HalvingDoubling(const LeafTensors& tensors, const CollectiveContext& context) {
  Allreduce(tensors, context).Run();
}

}  // namespace adasum
