#include "cc/algorithms/recursive_doubling.h"

#include <vector>

#include "cc/algorithms/fusion_buffer.h"
#include "cc/algorithms/schedule.h"

namespace adasum {
namespace {

class Doubling {
 public:
  Doubling(const LeafTensors& tensors, const CollectiveContext& context)
      : reduction_(context.reduction),
        transport_(context.transport),
        arithmetic_(context.arithmetic),
        buffer_(tensors, context),
        all_(buffer_.all()),
        num_bytes_(buffer_.Bytes(all_)),
        received_(context.scratch.receive.Get(num_bytes_)),
        schedule_(MakeSchedule(transport_.rank(), transport_.size(), all_.size())) {}

  void Run() {
    buffer_.Open(all_, 0);
    if (schedule_.fold == Fold::kGives) return GiveAll();
    if (schedule_.fold == Fold::kTakes) {
      Receive(schedule_.fold_peer);
      Combine({0, schedule_.fold_peer, all_, {}, true});
    }
    for (const Level& level : schedule_.levels) {
      const void* own = buffer_.Packed(all_, buffer_.Work(all_));
      transport_.SendRecv({level.peer, own, num_bytes_}, {level.peer, received_, num_bytes_});
      Combine(level);
    }
    if (schedule_.fold == Fold::kTakes) Give(schedule_.fold_peer, buffer_.Work(all_));
  }

 private:
  void Give(int peer, const void* bytes) {
    transport_.SendRecv({peer, bytes, num_bytes_}, {peer, nullptr, 0});
  }
  void Receive(int peer) { transport_.SendRecv({peer, nullptr, 0}, {peer, received_, num_bytes_}); }

  // A leaf beyond the power of two.
  void GiveAll() {
    Give(schedule_.fold_peer, buffer_.Packed(all_, buffer_.Work(all_)));
    Receive(schedule_.fold_peer);
    buffer_.Deliver(all_, received_);
  }

  void Combine(const Level& level) {
    const bool is_last = level.distance == schedule_.levels.back().distance;
    const std::vector<Piece> pieces =
        buffer_.Pieces(all_, level.is_left ? nullptr : received_,
                       level.is_left ? received_ : nullptr, buffer_.Work(all_), is_last);
    std::vector<Moments> moments(reduction_.NeedsMoments() ? buffer_.num_segments() : 0);
    if (!moments.empty()) {
      arithmetic_.AddMoments(buffer_.dtype(), pieces, moments.data());
      arithmetic_.AwaitMoments();
    }
    reduction_.Combine({buffer_.dtype(), pieces,
                        CountLeaves(transport_.rank(), transport_.size(), level.distance), is_last,
                        moments, arithmetic_});
    buffer_.SetCombined();
  }

  const Reduction& reduction_;
  Transport& transport_;
  Arithmetic& arithmetic_;
  FusionBuffer buffer_;
  const Range all_;
  const int64_t num_bytes_;
  void* const received_;  // where partners' vectors arrive
  const Schedule schedule_;
};

}  // namespace

void RecursiveDoubling(const LeafTensors& tensors, const CollectiveContext& context) {
  Doubling(tensors, context).Run();
}

}  // namespace adasum
