// Calls of partial allreduces that wait for what they get.
#ifndef ADASUM_TESTS_CC_PARTIAL_CALLS_H_
#define ADASUM_TESTS_CC_PARTIAL_CALLS_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/collectives/partial_allreduce.h"
#include "tests/cc/ranks.h"

namespace adasum {
namespace test {

struct PartialResult {
  Ending ending;
  std::vector<double> values;
  int64_t num_behind = -1;
};

// How many vectors of calls are kept at the moment.
inline std::atomic<int64_t> num_kept{0};

// One float64 vector; it belongs to the request from then on.
inline PartialResult CallPartial(Communicator& communicator, const std::vector<double>& values,
                                 const std::string& reduction = "mean", int group_size = 2,
                                 std::optional<int64_t> turn = std::nullopt) {
  PartialResult result;
  result.values.resize(values.size());
  ++num_kept;
  std::shared_ptr<const std::vector<double>> kept(new std::vector<double>(values),
                                                  [](const std::vector<double>* vector) {
                                                    delete vector;
                                                    --num_kept;
                                                  });
  PartialTensors tensors;
  tensors.name = "partial";
  tensors.dtype = DType::kFloat64;
  tensors.shapes = {{static_cast<int64_t>(values.size())}};
  tensors.reductions = {reduction};
  tensors.group_size = group_size;
  tensors.turn = turn;
  tensors.inputs = {kept->data()};
  tensors.kept = std::move(kept);
  tensors.outputs = {result.values.data()};
  tensors.num_behind = &result.num_behind;
  Pending pending;
  Request request = PartialAllreduceRequest(std::move(tensors));
  request.done = pending.done();
  communicator.Enqueue(std::move(request));
  result.ending = pending.Await();
  return result;
}

inline void ResetPartial(Communicator& communicator, bool restarts = false) {
  Pending pending;
  Request request = PartialResetRequest(restarts);
  request.done = pending.done();
  communicator.Enqueue(std::move(request));
  CHECK_EQ(Describe(pending.Await()), "");
}

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_PARTIAL_CALLS_H_
