#include "cc/algorithms/halving_doubling.h"

#include <algorithm>

#include "cc/algorithms/halving.h"
#include "cc/core/schedule.h"

namespace adasum {
namespace {

// One run. Passes over memory for a vector of B bytes, the first level with a leaf whose memory can
// be read, S bytes of it at a time so that the peer's part is in the cache:
//   moments: the half that the peer wants is packed (reads B/2, writes S in turn), and the own half
//     is read beside the peer's packed one (B/2 + S in turn);
//   combination: the same again, for the last kPacked steps without the packing; it writes B/2.
// Every further level goes through half as much: the own values are packed by then.
class Traversal {
 public:
  Traversal(const LeafTensors& tensors, const CollectiveContext& context)
      : transport_(context.transport),
        leaf_(tensors, context),
        all_(leaf_.all()),
        schedule_(MakeSchedule(transport_.rank(), transport_.size(), all_.size())),
        traversed_{context, schedule_, leaf_, {}} {}

  void Run() {
    Open();
    if (schedule_.fold == Fold::kGives) return GiveAll();
    if (schedule_.fold == Fold::kTakes) TakeFold();
    for (const Level& level : schedule_.levels) Halving(traversed_, level).Run();
    for (auto level = schedule_.levels.rbegin() + 1; level < schedule_.levels.rend(); ++level) {
      Steps steps = traversed_.StepsWith(level->peer, level->keep, level->give);
      transport_.Announce(steps.size());  // what was received is delivered meanwhile
      for (int64_t i = 0; i < steps.size(); ++i) {
        traversed_.Gather(*level, steps.keep(i), leaf_.Work(steps.keep(i)), steps.give(i));
      }
    }
    if (schedule_.fold == Fold::kTakes) ReturnToFolded();
  }

 private:
  void Open() {
    if (!transport_.needs_workspace() || schedule_.fold != Fold::kNone ||
        !transport_.CanRead(schedule_.levels[0].peer)) {
      return leaf_.Open(all_, 0);
    }
    // The peer of the first level, the only one to want packed inputs, reads them step by step.
    const Level& first = schedule_.levels[0];
    const Steps steps = traversed_.StepsWith(first.peer, first.keep, first.give);
    const int64_t bytes = std::max(leaf_.Bytes(steps.keep(0)), leaf_.Bytes(steps.give(0)));
    leaf_.Open(first.keep, std::min(Turns::kPacked, steps.size()) * bytes);
    traversed_.turns = {leaf_.Extra(), bytes};
  }

  // A leaf beyond the power of two gives everything away and hears the result last.
  void GiveAll() {
    int peer = schedule_.fold_peer;
    Steps steps = traversed_.StepsWith(peer, {}, all_);
    for (int64_t i = 0; i < steps.size(); ++i) {
      Range part = steps.give(i);
      transport_.Exchange({peer, leaf_.Packed(part, leaf_.Work(part)), leaf_.Bytes(part)},
                          {peer, nullptr, 0});
    }
    for (int64_t i = 0; i < steps.size(); ++i) {
      Range part = steps.give(i);
      void* landing =
          leaf_.WorksInOutput() ? leaf_.Work(part) : traversed_.Landing(leaf_.Bytes(part));
      leaf_.Deliver(part,
                    transport_.Exchange({peer, nullptr, 0}, {peer, landing, leaf_.Bytes(part)}));
    }
  }

  void TakeFold() {
    // Both vectors are here whole: there is nobody to sum the moments with, at distance 0.
    Level fold{0, schedule_.fold_peer, all_, {}, true};
    Halving(traversed_, fold).Run();
  }

  void ReturnToFolded() {
    int peer = schedule_.fold_peer;
    Steps steps = traversed_.StepsWith(peer, all_, {});
    transport_.Announce(steps.size());
    for (int64_t i = 0; i < steps.size(); ++i) {
      Range part = steps.keep(i);
      transport_.Exchange({peer, leaf_.Work(part), leaf_.Bytes(part)}, {peer, nullptr, 0});
    }
  }

  Transport& transport_;
  PackedLeaf leaf_;
  const Range all_;
  const Schedule schedule_;
  Traversed traversed_;
};

}  // namespace

void HalvingDoubling(const LeafTensors& tensors, const CollectiveContext& context) {
  Traversal(tensors, context).Run();
}

}  // namespace adasum
