// What all leaves have to know of each other before a request: one small message each way between
// those that will exchange something.
#ifndef ADASUM_CUDA_MEETING_H_
#define ADASUM_CUDA_MEETING_H_

#include "cc/algorithms/schedule.h"
#include "cc/core/transport.h"

namespace adasum {

// Collective. merge(a, b) of the values of all leaves, equal on all of them if the order of its
// arguments does not matter. Plain bytes. In the order of the schedule, so that pairs
// wait for each other in no circle.
template <typename Value, typename Merge>
Value MergeOverLeaves(Transport& wire, const Value& mine, Merge merge) {
  constexpr int64_t kBytes = sizeof(Value);
  const Schedule schedule = MakeSchedule(wire.rank(), wire.size(), 1);
  const int folded = schedule.fold_peer;
  Value all = mine, theirs{};
  if (schedule.fold == Fold::kGives) {
    wire.SendRecv({folded, &mine, kBytes}, {folded, nullptr, 0});
    wire.SendRecv({folded, nullptr, 0}, {folded, &all, kBytes});
    return all;
  }
  if (schedule.fold == Fold::kTakes) {
    wire.SendRecv({folded, nullptr, 0}, {folded, &theirs, kBytes});
    all = merge(all, theirs);
  }
  for (const Level& level : schedule.levels) {
    wire.SendRecv({level.peer, &all, kBytes}, {level.peer, &theirs, kBytes});
    all = merge(all, theirs);
  }
  if (schedule.fold == Fold::kTakes) {
    wire.SendRecv({folded, &all, kBytes}, {folded, nullptr, 0});
  }
  return all;
}

}  // namespace adasum

#endif  // ADASUM_CUDA_MEETING_H_
