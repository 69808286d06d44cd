#include "cc/algorithms/recursive_doubling.h"

#include <cstring>
#include <vector>

#include "cc/algorithms/fusion_buffer.h"
#include "cc/algorithms/schedule.h"
#include "cc/algorithms/squared_norms.h"
#include "cc/core/bytes.h"

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
        norms_(tensors.norms, buffer_.num_segments(), context.scratch.norms),
        received_(context.scratch.receive.Get(num_bytes_ + norms_.found_bytes())),
        schedule_(MakeSchedule(transport_.rank(), transport_.size(), all_.size())) {}

  void Run() {
    buffer_.Open(all_, 0);
    if (schedule_.fold == Fold::kGives) return GiveAll();
    if (schedule_.fold == Fold::kTakes) {
      Receive(schedule_.fold_peer, nullptr, 0);
      Combine({0, schedule_.fold_peer, all_, {}, true});
    }
    for (const Level& level : schedule_.levels) {
      Swap(level.peer);
      Combine(level);
    }
    if (schedule_.fold == Fold::kTakes) {
      Give(schedule_.fold_peer, buffer_.Work(all_), norms_.found(), norms_.found_bytes());
    }
  }

 private:
  // A vector goes with what is behind it in one message: norms, where they are asked for.
  void Give(int peer, const void* vector, const void* behind, int64_t behind_bytes) {
    const void* message = norms_.Message(vector, num_bytes_, behind, behind_bytes);
    transport_.SendRecv({peer, message, num_bytes_ + behind_bytes}, {peer, nullptr, 0});
  }
  void Receive(int peer, void* behind, int64_t behind_bytes) {
    transport_.SendRecv({peer, nullptr, 0}, {peer, received_, num_bytes_ + behind_bytes});
    TakeBehind(behind, behind_bytes);
  }
  void Swap(int peer) {
    const int64_t num_bytes = num_bytes_ + norms_.num_bytes();
    const void* own = buffer_.Packed(all_, buffer_.Work(all_));
    const void* message = norms_.Message(own, num_bytes_, norms_.own(), norms_.num_bytes());
    transport_.SendRecv({peer, message, num_bytes}, {peer, received_, num_bytes});
    TakeBehind(norms_.theirs(), norms_.num_bytes());
  }
  void TakeBehind(void* to, int64_t num_bytes) {
    if (num_bytes > 0) std::memcpy(to, At(received_, num_bytes_), num_bytes);
  }

  // A leaf beyond the power of two.
  void GiveAll() {
    Give(schedule_.fold_peer, buffer_.Packed(all_, buffer_.Work(all_)), nullptr, 0);
    Receive(schedule_.fold_peer, norms_.to_find(), norms_.found_bytes());
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
    const LeafCounts leaves = CountLeaves(transport_.rank(), transport_.size(), level.distance);
    if (norms_.is_wanted()) norms_.Meet(reduction_, leaves, level.is_left, moments);
    reduction_.Combine({buffer_.dtype(), pieces, leaves, is_last, moments, arithmetic_});
    buffer_.SetCombined();
  }

  const Reduction& reduction_;
  Transport& transport_;
  Arithmetic& arithmetic_;
  FusionBuffer buffer_;
  const Range all_;
  const int64_t num_bytes_;
  NormsOnTheWay norms_;
  void* const received_;  // where partners' vectors arrive
  const Schedule schedule_;
};

}  // namespace

void RecursiveDoubling(const LeafTensors& tensors, const CollectiveContext& context) {
  Doubling(tensors, context).Run();
}

}  // namespace adasum
