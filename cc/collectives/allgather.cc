#include "cc/collectives/allgather.h"

#include <utility>

#include "cc/collectives/parts.h"
#include "cc/collectives/refusal.h"
#include "cc/collectives/take_together.h"
#include "cc/core/bytes.h"

namespace adasum {
namespace {

std::vector<int64_t> CountsOf(const std::vector<RowTensor>& tensors) {
  std::vector<int64_t> counts;
  for (const RowTensor& tensor : tensors) counts.push_back(tensor.num_rows);
  return counts;
}

// Refused here and not by each rank for itself, so that none waits for one that was refused.
void RefuseScalars(const std::vector<RowTensor>& inputs, const Transport& transport) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].num_rows != kScalar) continue;
    RefuseOnAllRanks(transport,
                     "Expected tensors of at least one dimension, along which to gather. Received: "
                     "scalars as tensor " +
                         std::to_string(i) + ". Gather tf.reshape(tensor, [1]).");
  }
}

// Rows of tensor i on the ranks before `rank`.
int64_t RowsBefore(const Counts& counts, size_t i, int rank) {
  int64_t num_rows = 0;
  for (int r = 0; r < rank; ++r) num_rows += counts[r][i];
  return num_rows;
}

void RunAllgather(const AllgatherTensors& tensors, Transport& transport) {
  const std::vector<RowTensor>& inputs = tensors.inputs;
  RefuseScalars(inputs, transport);
  const Counts counts = GatherRows(transport, CountsOf(inputs));
  std::vector<GatheredRows> gathered;
  for (size_t i = 0; i < inputs.size(); ++i) {
    gathered.push_back(
        {RowsBefore(counts, i, transport.size()), RowsBefore(counts, i, transport.rank())});
  }
  std::vector<void*> outputs;
  AllocateTogether(transport, "rows", [&] { outputs = tensors.allocate(gathered); });
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t row_bytes = inputs[i].row_bytes;
    ExchangeParts(
        transport, [&](int) { return Part{inputs[i].bytes, inputs[i].num_rows * row_bytes}; },
        [&](int rank) {
          return PartOfResult{At(outputs[i], RowsBefore(counts, i, rank) * row_bytes),
                              counts[rank][i] * row_bytes};
        });
  }
}

}  // namespace

Request AllgatherRequest(AllgatherTensors tensors) {
  RequestKey key(tensors.name, "allgather of " + TextOf(tensors.inputs));
  auto run = [tensors = std::move(tensors)](RequestContext& context) {
    RunAllgather(tensors, context.transport);
  };
  return {std::move(key), std::move(run), nullptr};
}

}  // namespace adasum
