#include "cc/collectives/alltoall.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cc/collectives/parts.h"
#include "cc/collectives/refusal.h"
#include "cc/collectives/take_together.h"
#include "cc/core/bytes.h"

namespace adasum {
namespace {

std::string ListText(const std::vector<int64_t>& numbers) {
  std::string text;
  for (int64_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return "[" + text + "]";
}

int64_t SumOf(const std::vector<int64_t>& numbers, int64_t count) {
  return std::accumulate(numbers.begin(), numbers.begin() + count, int64_t{0});
}

// What a rank says before it deals: the rows of each tensor, and its splits behind them.
struct Deal {
  std::vector<int64_t> num_rows;
  std::vector<int64_t> splits;
};

Deal DealOf(const std::vector<int64_t>& counts, size_t num_tensors) {
  return {{counts.begin(), counts.begin() + num_tensors},
          {counts.begin() + num_tensors, counts.end()}};
}

// What is wrong with it, as an error says it; empty for nothing.
std::string Fault(const Deal& deal, int size) {
  const int64_t num_rows = deal.num_rows[0];
  if (num_rows == kScalar) return "scalars. Deal tf.reshape(tensor, [1])";
  for (int64_t other : deal.num_rows) {
    if (other != num_rows) {
      return "tensors of " + ListText(deal.num_rows) + " rows. Pass as many of each";
    }
  }
  if (deal.splits.empty()) {
    if (num_rows % size == 0) return "";
    return std::to_string(num_rows) + " rows, which can't be dealt evenly. Pass splits";
  }
  const bool is_count = std::all_of(deal.splits.begin(), deal.splits.end(),
                                    [&](int64_t n) { return 0 <= n && n <= num_rows; });
  if (is_count && static_cast<int>(deal.splits.size()) == size &&
      SumOf(deal.splits, size) == num_rows) {
    return "";
  }
  return "splits " + ListText(deal.splits) + " of " + std::to_string(num_rows) +
         " rows. Pass one count for each rank, which add up to the rows";
}

// How many rows each rank gives to each: [giver][taker]. Every rank looks at the deals of all, so
// that all refuse what one of them passed.
Counts CheckedSplits(const AlltoallTensors& tensors, Transport& transport) {
  const int size = transport.size();
  std::vector<int64_t> mine;
  for (const RowTensor& tensor : tensors.inputs) mine.push_back(tensor.num_rows);
  mine.insert(mine.end(), tensors.splits.begin(), tensors.splits.end());
  Counts splits;
  const size_t num_tensors = tensors.inputs.size();
  for (const std::vector<int64_t>& counts : GatherCounts(transport, mine, num_tensors)) {
    Deal deal = DealOf(counts, num_tensors);
    const std::string fault = Fault(deal, size);
    if (!fault.empty()) {
      RefuseOnAllRanks(transport, "Expected rows for each of " + std::to_string(size) +
                                      " ranks. Received: " +
                                      transport.RankName(static_cast<int>(splits.size())) +
                                      " passed " + fault + ".");
    }
    if (deal.splits.empty()) deal.splits.assign(size, deal.num_rows[0] / size);
    splits.push_back(std::move(deal.splits));
  }
  return splits;
}

void RunAlltoall(const AlltoallTensors& tensors, Transport& transport) {
  const Counts splits = CheckedSplits(tensors, transport);
  const int rank = transport.rank();
  std::vector<int64_t> received;
  for (const std::vector<int64_t>& of_rank : splits) received.push_back(of_rank[rank]);
  std::vector<void*> outputs;
  AllocateTogether(transport, "rows", [&] { outputs = tensors.allocate(received); });
  for (size_t i = 0; i < tensors.inputs.size(); ++i) {
    const RowTensor& input = tensors.inputs[i];
    ExchangeParts(
        transport,
        [&](int to) {
          return Part{At(input.bytes, SumOf(splits[rank], to) * input.row_bytes),
                      splits[rank][to] * input.row_bytes};
        },
        [&](int from) {
          return PartOfResult{At(outputs[i], SumOf(received, from) * input.row_bytes),
                              received[from] * input.row_bytes};
        });
  }
}

}  // namespace

Request AlltoallRequest(AlltoallTensors tensors) {
  RequestKey key(tensors.name, "alltoall of " + TextOf(tensors.inputs));
  auto run = [tensors = std::move(tensors)](RequestContext& context) {
    RunAlltoall(tensors, context.transport);
  };
  return {std::move(key), std::move(run), nullptr};
}

}  // namespace adasum
