#include "cc/collectives/partial_allreduce.h"

#include <utility>

#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/collectives/collective_state.h"
#include "cc/reductions/reduction.h"

namespace adasum {
namespace {

void Check(const PartialTensors& tensors) {
  const int size = tensors.group_size;
  if (size < 2 || (size & (size - 1)) != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "Expected a power of two of ranks in a group, at least 2. Received: " +
                    std::to_string(size) + ".");
  }
  if (tensors.turn.has_value() && *tensors.turn < 0) {
    throw Error(ErrorCode::kInvalidArgument, "Expected a turn of the groups from 0. Received: " +
                                                 std::to_string(*tensors.turn) + ".");
  }
  if (!IsFloating(tensors.dtype)) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string("Expected floats for an allreduce of groups. Received: ") +
                    DTypeName(tensors.dtype) + ".");
  }
  for (const std::string& reduction : tensors.reductions) {
    if (reduction == "adasum" || reduction == "mean") continue;
    throw Error(ErrorCode::kInvalidArgument,
                "Expected 'adasum' or 'mean' for groups that change: others count what ranks have "
                "in common many times. Received: '" +
                    reduction + "'.");
  }
}

std::string Signature(const PartialTensors& tensors) {
  std::string reductions;
  for (const std::string& reduction : tensors.reductions) {
    reductions += (reductions.empty() ? "" : ", ") + reduction;
  }
  return "allreduce in groups of " + std::to_string(tensors.group_size) + " of " +
         std::to_string(tensors.shapes.size()) + " " + DTypeName(tensors.dtype) + " tensors " +
         TextOf(tensors.shapes) + " by " + reductions +
         (tensors.turn.has_value() ? ", turn " + std::to_string(*tensors.turn) : "");
}

PartialRounds& RoundsOf(RequestContext& context) { return StateOf(context).partial_rounds; }

Request PassiveRequest(const RequestKey& key) {
  return {key, [](RequestContext& context) { RoundsOf(context).RunWithout(context); },
          [](const Error*) {}};
}

}  // namespace

Request PartialAllreduceRequest(PartialTensors tensors) {
  Check(tensors);
  const RequestKey key(tensors.name, Signature(tensors));
  const auto call = std::make_shared<const PartialTensors>(std::move(tensors));
  auto run = [key, call](RequestContext& context) {
    RoundsOf(context).RunWith(*call, context);
    const bool waits = call->turn.has_value();
    if (!waits && !context.passive) context.passive = [key] { return PassiveRequest(key); };
  };
  Request request{key, std::move(run), nullptr};
  request.run_alone = [call](RequestContext& context) {
    PartialRounds& rounds = RoundsOf(context);
    if (!rounds.is_late() || !rounds.Fits(*call)) return false;
    CpuArithmetic arithmetic(KernelsOf(context.topology.instruction_set), false);
    rounds.TakeLate(*call, arithmetic);
    return true;
  };
  return request;
}

Request PartialResetRequest(bool restarts) {
  Request request{RequestKey("reset", "reset"), nullptr, nullptr};
  request.run_alone = [restarts](RequestContext& context) {
    if (restarts) {
      RoundsOf(context).Restart();
      context.passive = nullptr;
    } else {
      RoundsOf(context).Reset();
    }
    return true;
  };
  return request;
}

}  // namespace adasum
