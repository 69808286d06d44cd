#include "cc/algorithms/reduce_leaves.h"

#include <algorithm>
#include <chrono>

#include "cc/algorithms/chunks.h"
#include "cc/algorithms/cross_memory.h"
#include "cc/algorithms/direct.h"
#include "cc/algorithms/fusion_buffer.h"
#include "cc/algorithms/halving_doubling.h"
#include "cc/algorithms/network_direct.h"
#include "cc/algorithms/recursive_doubling.h"
#include "cc/algorithms/schedule.h"
#include "cc/algorithms/shared_tensors.h"
#include "cc/algorithms/zero_copy.h"

namespace adasum {

Algorithm SelectAlgorithm(const Transport& transport, int64_t num_bytes) {
  if (num_bytes <= transport.ShortBytes()) return Algorithm::kRecursiveDoubling;
  if (transport.size() <= kMostOperands && AllShareMemory(transport)) return Algorithm::kDirect;
  return SuitsNetworkDirect(transport) ? Algorithm::kNetworkDirect : Algorithm::kRecursiveHalving;
}

Room RoomOf(const LeafTensors& tensors, const Transport& transport, const Arithmetic& arithmetic) {
  const int64_t element_bytes = ElementBytes(tensors.dtype);
  const int64_t num_elements = tensors.segments.num_elements();
  const int64_t num_bytes = num_elements * element_bytes;
  Room room{0, 0, tensors.segments.size(), num_bytes};
  if (num_bytes == 0 || transport.size() == 1) return room;
  const bool is_one_run = tensors.segments.size() == 1 && !transport.requires_workspace();
  const bool works_in_output = is_one_run && !tensors.outputs.empty();
  if (!works_in_output) room.work_bytes = num_bytes;
  const Schedule schedule = MakeSchedule(transport.rank(), transport.size(), num_elements);
  switch (schedule.fold) {
    case Fold::kGives:  // receives the result chunk by chunk
      if (!works_in_output) {
        const int64_t chunk = ChunkBytesWith(schedule.fold_peer, transport, arithmetic);
        const int64_t num_slots = 1 + transport.MostPosted(schedule.fold_peer);
        room.receive_bytes = std::min(num_bytes, num_slots * chunk);
      }
      break;
    case Fold::kTakes:
      room.receive_bytes = num_bytes;
      break;
    case Fold::kNone:  // the first level keeps more than those after it
      room.receive_bytes = schedule.levels[0].keep.size() * element_bytes;
  }
  return room;
}

namespace {

constexpr SquaredNorms kOfNothing{0, 0};

// A leaf without others has no moments: its squared norm takes a pass of its own.
void MeasureAlone(const LeafTensors& tensors, const CollectiveContext& context) {
  std::vector<Moments> moments(tensors.segments.size());
  const FusionBuffer buffer(tensors, context);
  context.arithmetic.AddMoments(
      tensors.dtype, buffer.Pieces(buffer.all(), nullptr, nullptr, nullptr, false), moments.data());
  context.arithmetic.AwaitMoments();
  for (size_t i = 0; i < moments.size(); ++i) {
    tensors.norms[i] = {moments[i].left_norm2, moments[i].left_norm2};
  }
}

// Without copies if all can reach all tensors, else by pack().
template <typename Pack>
bool ReduceInReach(const LeafTensors& tensors, const CollectiveContext& context,
                   const std::vector<Range>* shares, Pack pack) {
  using Clock = std::chrono::steady_clock;
  SharedTensors shared(tensors, context, shares);
  const Reach reach = shared.Find();
  if (reach == Reach::kMapped) return ZeroCopyAllreduce(tensors, context, shared);
  const Clock::time_point begin = Clock::now();
  const bool is_done =
      reach == Reach::kAddresses ? CrossMemoryAllreduce(tensors, context, shared) : pack();
  if (is_done && shared.had_choice()) {
    shared.NoteSeconds(reach, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return is_done;
}

bool ReduceInReach(const LeafTensors& tensors, const CollectiveContext& context) {
  return ReduceInReach(tensors, context, nullptr,
                       [&] { return DirectAllreduce(tensors, context); });
}

void Reduce(const LeafTensors& tensors, const CollectiveContext& context) {
  const int64_t num_bytes = tensors.segments.num_elements() * ElementBytes(tensors.dtype);
  if (num_bytes == 0) {
    if (tensors.norms != nullptr) std::fill_n(tensors.norms, tensors.segments.size(), kOfNothing);
    return;
  }
  if (context.transport.size() == 1) {
    if (tensors.norms != nullptr) MeasureAlone(tensors, context);
    return FusionBuffer(tensors, context).DeliverInputs();
  }
  const Algorithm algorithm = SelectAlgorithm(context.transport, num_bytes);
  if (algorithm == Algorithm::kRecursiveDoubling) return RecursiveDoubling(tensors, context);
  if (algorithm == Algorithm::kDirect && ReduceInReach(tensors, context)) return;
  if (algorithm == Algorithm::kNetworkDirect && NetworkDirectAllreduce(tensors, context)) return;
  HalvingDoubling(tensors, context);
}

}  // namespace

void ReduceLeaves(const LeafTensors& tensors, const CollectiveContext& context) {
  LeafTensors asked(tensors);
  if (!context.reduction.NeedsMoments()) asked.norms = nullptr;
  Reduce(asked, context);
}

void ReduceShares(const LeafTensors& tensors, const std::vector<Range>& shares,
                  const CollectiveContext& context, const std::function<void()>& reduce) {
  if (context.transport.size() > kMostOperands || !AllShareMemory(context.transport)) {
    return reduce();
  }
  ReduceInReach(tensors, context, &shares, [&] {
    reduce();
    return true;
  });
}

}  // namespace adasum
