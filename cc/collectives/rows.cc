#include "cc/collectives/rows.h"

#include <limits>

#include "cc/collectives/refusal.h"
#include "cc/transport/gather.h"
#include "cc/transport/peer_bytes.h"

namespace adasum {

std::string TextOf(const std::vector<RowTensor>& tensors) {
  std::string text;
  for (const RowTensor& tensor : tensors) text += (text.empty() ? "" : ", ") + tensor.text;
  return text;
}

Counts GatherRows(Transport& transport, const std::vector<int64_t>& mine) {
  Counts counts = GatherCounts(transport, mine, mine.size());
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    for (int64_t num_rows : counts[rank]) {
      if (num_rows != kScalar) continue;
      RefuseBytes(transport.WorldRank(static_cast<int>(rank)), "rows", "a scalar");
    }
  }
  return counts;
}

Counts GatherCounts(Transport& transport, const std::vector<int64_t>& mine, size_t num_tensors) {
  const std::string bytes(reinterpret_cast<const char*>(mine.data()),
                          mine.size() * sizeof(int64_t));
  constexpr std::numeric_limits<int64_t> kAny;
  Counts counts;
  for (const std::string& text : GatherTexts(transport, bytes)) {
    const int peer = static_cast<int>(counts.size());
    NumberReader reader(text, 0, transport.WorldRank(peer));
    counts.emplace_back();
    for (size_t i = 0; i < num_tensors; ++i) {
      counts.back().push_back(reader.Next(kScalar, kAny.max()));
    }
    while (!reader.is_at_end()) counts.back().push_back(reader.Next(kAny.min(), kAny.max()));
  }
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    for (size_t i = 0; i < num_tensors; ++i) {
      if (counts[rank][i] <= kMostRows) continue;
      RefuseOnAllRanks(transport,
                       "Expected at most " + std::to_string(kMostRows) +
                           " rows in a tensor. Received: " + std::to_string(counts[rank][i]) +
                           " on " + transport.RankName(static_cast<int>(rank)) +
                           ". Pass it in parts.");
    }
  }
  return counts;
}

}  // namespace adasum
