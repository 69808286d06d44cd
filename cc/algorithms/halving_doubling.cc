#include "cc/algorithms/halving_doubling.h"

#include <algorithm>

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
        all_(buffer_.all()),
        schedule_(MakeSchedule(transport_.rank(), transport_.size(), all_.size())),
        context_{context, schedule_, buffer_, {}} {}

  void Run() {
    Open();
    if (schedule_.fold == Fold::kGives) return GiveAll();
    if (schedule_.fold == Fold::kTakes) TakeFold();
    for (const Level& level : schedule_.levels) Halving(context_, level).Run();
    for (auto level = schedule_.levels.rbegin() + 1; level < schedule_.levels.rend(); ++level) {
      Chunks chunks = context_.ChunksWith(level->peer, level->keep, level->give);
      transport_.Announce(chunks.size());  // what was received is delivered meanwhile
      for (int64_t i = 0; i < chunks.size(); ++i) {
        context_.Gather(*level, chunks.keep(i), buffer_.Work(chunks.keep(i)), chunks.give(i));
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
    int peer = schedule_.fold_peer;
    Chunks chunks = context_.ChunksWith(peer, {}, all_);
    for (int64_t i = 0; i < chunks.size(); ++i) {
      Range part = chunks.give(i);
      transport_.Exchange({peer, buffer_.Packed(part, buffer_.Work(part)), buffer_.Bytes(part)},
                          {peer, nullptr, 0});
    }
    for (int64_t i = 0; i < chunks.size(); ++i) {
      Range part = chunks.give(i);
      void* received = buffer_.WorksInOutput() ? buffer_.Work(part)
                                               : context_.ReceiveBuffer(buffer_.Bytes(part));
      buffer_.Deliver(
          part, transport_.Exchange({peer, nullptr, 0}, {peer, received, buffer_.Bytes(part)}));
    }
  }

  void TakeFold() {
    // This leaf has both vectors whole: at distance 0 no rank adds to the moments.
    Level fold{0, schedule_.fold_peer, all_, {}, true};
    Halving(context_, fold).Run();
  }

  void ReturnToFolded() {
    int peer = schedule_.fold_peer;
    Chunks chunks = context_.ChunksWith(peer, all_, {});
    transport_.Announce(chunks.size());
    for (int64_t i = 0; i < chunks.size(); ++i) {
      Range part = chunks.keep(i);
      transport_.Exchange({peer, buffer_.Work(part), buffer_.Bytes(part)}, {peer, nullptr, 0});
    }
  }

  Transport& transport_;
  FusionBuffer buffer_;
  const Range all_;
  const Schedule schedule_;
  HalvingContext context_;
};

}  // namespace

void HalvingDoubling(const LeafTensors& tensors, const CollectiveContext& context) {
  Allreduce(tensors, context).Run();
}

}  // namespace adasum
