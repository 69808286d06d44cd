#include "cc/algorithms/recursive_doubling.h"

#include <vector>

#include "cc/algorithms/packed_leaf.h"
#include "cc/core/schedule.h"

namespace adasum {
namespace {

class Doubling {
 public:
  Doubling(const LeafTensors& tensors, const CollectiveContext& context)
      : reduction_(context.reduction),
        transport_(context.transport),
        arithmetic_(context.arithmetic),
        leaf_(tensors, context),
        all_(leaf_.all()),
        num_bytes_(leaf_.Bytes(all_)),
        landing_(context.scratch.landing.Get(num_bytes_)),
        schedule_(MakeSchedule(transport_.rank(), transport_.size(), all_.size())) {}

  void Run() {
    leaf_.Open(all_, 0);
    if (schedule_.fold == Fold::kGives) return GiveAll();
    if (schedule_.fold == Fold::kTakes) {
      Receive(schedule_.fold_peer);
      Combine({0, schedule_.fold_peer, all_, {}, true});
    }
    for (const Level& level : schedule_.levels) {
      const void* own = leaf_.Packed(all_, leaf_.Work(all_));
      transport_.SendRecv({level.peer, own, num_bytes_}, {level.peer, landing_, num_bytes_});
      Combine(level);
    }
    if (schedule_.fold == Fold::kTakes) Give(schedule_.fold_peer, leaf_.Work(all_));
  }

 private:
  void Give(int peer, const void* bytes) {
    transport_.SendRecv({peer, bytes, num_bytes_}, {peer, nullptr, 0});
  }
  void Receive(int peer) { transport_.SendRecv({peer, nullptr, 0}, {peer, landing_, num_bytes_}); }

  // A leaf beyond the power of two.
  void GiveAll() {
    Give(schedule_.fold_peer, leaf_.Packed(all_, leaf_.Work(all_)));
    Receive(schedule_.fold_peer);
    leaf_.Deliver(all_, landing_);
  }

  void Combine(const Level& level) {
    const bool is_last = level.distance == schedule_.levels.back().distance;
    const std::vector<Piece> pieces =
        leaf_.Pieces(all_, level.is_left ? nullptr : landing_, level.is_left ? landing_ : nullptr,
                     leaf_.Work(all_), is_last);
    std::vector<Moments> moments(reduction_.NeedsMoments() ? leaf_.num_segments() : 0);
    if (!moments.empty()) {
      arithmetic_.AddMoments(leaf_.dtype(), pieces, moments.data());
      arithmetic_.AwaitMoments();
    }
    reduction_.Combine({leaf_.dtype(), pieces,
                        CountLeaves(transport_.rank(), transport_.size(), level.distance), is_last,
                        moments, arithmetic_});
    leaf_.SetCombined();
  }

  const Reduction& reduction_;
  Transport& transport_;
  Arithmetic& arithmetic_;
  PackedLeaf leaf_;
  const Range all_;
  const int64_t num_bytes_;
  void* const landing_;  // where partners' vectors arrive
  const Schedule schedule_;
};

}  // namespace

void RecursiveDoubling(const LeafTensors& tensors, const CollectiveContext& context) {
  Doubling(tensors, context).Run();
}

}  // namespace adasum
