#include "cc/collectives/deadline_allreduce.h"

#include <iomanip>
#include <memory>
#include <sstream>
#include <utility>

#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/collectives/collective_state.h"
#include "cc/collectives/deadline_round.h"

namespace adasum {
namespace {

void Check(const DeadlineTensors& tensors) {
  const auto refuse = [](const std::string& expected, const std::string& received) {
    throw Error(ErrorCode::kInvalidArgument,
                "Expected " + expected + ". Received: " + received + ".");
  };
  if (!IsFloating(tensors.dtype)) {
    refuse("floats for an allreduce with a deadline", DTypeName(tensors.dtype));
  }
  if (!(tensors.milliseconds >= 0)) {
    refuse("a deadline of 0 milliseconds or more", std::to_string(tensors.milliseconds));
  }
  if (!(tensors.max_left_out >= 0 && tensors.max_left_out <= 1)) {
    refuse("max_left_out from 0 to 1", std::to_string(tensors.max_left_out));
  }
  for (const std::string& reduction : tensors.reductions) {
    if (reduction == "adasum" || reduction == "mean" || reduction == "sum") continue;
    refuse("'adasum', 'mean' or 'sum', to which a part that is left out is zero",
           "'" + reduction + "'");
  }
}

// Ranks that went by unlike bounds would not leave out the same.
std::string Exact(double number) {
  std::ostringstream text;
  text << std::setprecision(17) << number;
  return text.str();
}

std::string Signature(const DeadlineTensors& tensors) {
  std::string reductions;
  for (const std::string& reduction : tensors.reductions) {
    reductions += (reductions.empty() ? "" : ", ") + reduction;
  }
  return "allreduce within " + Exact(tensors.milliseconds) + " ms that leaves out " +
         Exact(tensors.max_left_out) + " of " + std::to_string(tensors.shapes.size()) + " " +
         DTypeName(tensors.dtype) + " tensors " + TextOf(tensors.shapes) + " by " + reductions;
}

}  // namespace

Request DeadlineAllreduceRequest(DeadlineTensors tensors) {
  Check(tensors);
  RequestKey key(tensors.name, Signature(tensors));
  auto run = [tensors = std::move(tensors)](RequestContext& context) {
    CpuArithmetic arithmetic(KernelsOf(context.topology.instruction_set), false);
    DeadlineRound(tensors, &context, &arithmetic, &StateOf(context).deadline_state).Run();
  };
  return {std::move(key), std::move(run), nullptr};
}

}  // namespace adasum
