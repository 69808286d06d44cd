#include "cc/collectives/partial_rounds.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "cc/collectives/rotating_groups.h"
#include "cc/collectives/subset_allreduce.h"
#include "cc/core/bytes.h"
#include "cc/core/copy_bytes.h"
#include "cc/reductions/reduction.h"

namespace adasum {
namespace {

// Those of the tensors with one reduction.
template <typename T>
std::vector<T> Chosen(const std::vector<T>& all, const std::vector<std::string>& reductions,
                      const std::string& reduction) {
  std::vector<T> chosen;
  for (size_t i = 0; i < all.size(); ++i) {
    if (reductions[i] == reduction) chosen.push_back(all[i]);
  }
  return chosen;
}

}  // namespace

void PartialRounds::Contribute(const PartialTensors& call) {
  Retire();
  if (segments_ == nullptr || call.dtype != contribution_.dtype ||
      call.shapes != contribution_.shapes) {
    segments_ = std::make_unique<Segments>(NumElements(call.shapes));
    are_zero_ = false;
  }
  contribution_ = call;
  counts_as_zero_ = false;
  ++num_calls_;
}

void PartialRounds::Retire() {
  // Of late calls in a row, between which there was no round, no peer has heard.
  if (std::exchange(is_in_round_, false)) retired_ = std::move(contribution_.kept);
  contribution_.kept = nullptr;
}

void PartialRounds::RunWith(const PartialTensors& call, RequestContext& context) {
  if (restarts_) num_calls_ = num_rounds_;
  restarts_ = false;
  *call.num_behind = 0;
  retired_ = nullptr;
  Contribute(call);
  Run(NextGroup(context.transport), call.inputs, call.outputs, context);
  num_leaves_ = 0;
}

void PartialRounds::RunWithout(RequestContext& context) {
  retired_ = nullptr;
  const std::vector<int> group = NextGroup(context.transport);
  if (group.size() == 1) return;  // nothing new: what was not taken yet stays
  std::vector<const void*> inputs = contribution_.inputs;
  if (counts_as_zero_) {
    const std::vector<char*> zeros = Addresses(zeros_);
    for (size_t i = 0; i < zeros.size(); ++i) {
      const int64_t num_elements = segments().offset(i + 1) - segments().offset(i);
      const int64_t num_bytes = num_elements * ElementBytes(contribution_.dtype);
      if (!are_zero_ && num_bytes > 0) std::memset(zeros[i], 0, num_bytes);
      inputs[i] = zeros[i];
    }
    are_zero_ = true;
  }
  const std::vector<char*> results = Addresses(result_);
  Run(group, inputs, {results.begin(), results.end()}, context);
  num_leaves_ = group.size();
}

std::vector<int> PartialRounds::NextGroup(const Transport& all) {
  const int64_t turn = contribution_.turn.value_or(num_rounds_);
  ++num_rounds_;
  return RotatingGroup(all.rank(), all.size(), contribution_.group_size, turn);
}

void PartialRounds::Run(const std::vector<int>& group, const std::vector<const void*>& inputs,
                        const std::vector<void*>& outputs, RequestContext& context) {
  is_in_round_ = true;
  for (const char* reduction : {"adasum", "mean"}) {
    AllreduceTensors tensors;
    tensors.reduction = reduction;
    tensors.dtype = contribution_.dtype;
    tensors.shapes = Chosen(contribution_.shapes, contribution_.reductions, reduction);
    if (tensors.shapes.empty()) continue;
    tensors.inputs = {Chosen(inputs, contribution_.reductions, reduction)};
    tensors.outputs = Chosen(outputs, contribution_.reductions, reduction);
    AllreduceAmong(group, tensors, context, &state_of_groups_);
  }
}

bool PartialRounds::Fits(const PartialTensors& call) const {
  return call.dtype == contribution_.dtype && call.shapes == contribution_.shapes &&
         call.reductions == contribution_.reductions && call.group_size == contribution_.group_size;
}

void PartialRounds::TakeLate(const PartialTensors& call, Arithmetic& arithmetic) {
  *call.num_behind = num_behind();
  Contribute(call);
  const std::vector<char*> results = Addresses(result_);
  const double all = 1.0 + num_leaves_;
  for (int64_t i = 0; i < segments().size(); ++i) {
    const int64_t num_elements = segments().offset(i + 1) - segments().offset(i);
    if (num_elements == 0) continue;
    if (num_leaves_ == 0) {
      CopyBytes(call.outputs[i], call.inputs[i], num_elements * ElementBytes(call.dtype));
      continue;
    }
    const std::vector<Piece> piece{
        {0, results[i], call.inputs[i], call.outputs[i], nullptr, num_elements}};
    // As one leaf more: of the mean, the last of so many; of Adasum, the root's other side.
    Coefficients weights{1 - 1 / all, 1 / all};
    const Reduction& reduction = FindReduction(call.reductions[i]);
    if (reduction.NeedsMoments()) {
      Moments moments;
      arithmetic.AddMoments(call.dtype, piece, &moments);
      arithmetic.AwaitMoments();
      weights = reduction.Weights(moments);
    }
    arithmetic.Combine(call.dtype, piece, &weights);
  }
  arithmetic.Finish();
  num_leaves_ = 0;
}

void PartialRounds::Reset() {
  counts_as_zero_ = true;
  num_leaves_ = 0;
  Retire();
}

void PartialRounds::Restart() {
  Reset();
  restarts_ = true;
}

std::vector<char*> PartialRounds::Addresses(Scratch& kept) const {
  const int64_t element_bytes = ElementBytes(contribution_.dtype);
  std::vector<int64_t> places{0};  // each at the begin of a line
  for (int64_t i = 0; i < segments().size(); ++i) {
    const int64_t num_elements = segments().offset(i + 1) - segments().offset(i);
    places.push_back(places.back() + InLines(num_elements * element_bytes));
  }
  char* const begin = static_cast<char*>(kept.Get(places.back()));
  std::vector<char*> addresses;
  for (int64_t i = 0; i < segments().size(); ++i) addresses.push_back(begin + places[i]);
  return addresses;
}

}  // namespace adasum
