#include "cc/collectives/rows.h"

#include <cstring>

#include "cc/core/error.h"
#include "cc/transport/gather.h"

namespace adasum {

std::string TextOf(const std::vector<RowTensor>& tensors) {
  std::string text;
  for (const RowTensor& tensor : tensors) text += (text.empty() ? "" : ", ") + tensor.text;
  return text;
}

Counts GatherCounts(Transport& transport, const std::vector<int64_t>& mine) {
  const std::string bytes(reinterpret_cast<const char*>(mine.data()),
                          mine.size() * sizeof(int64_t));
  Counts counts;
  for (const std::string& text : GatherTexts(transport, bytes)) {
    counts.emplace_back(text.size() / sizeof(int64_t));
    std::memcpy(counts.back().data(), text.data(), text.size());
  }
  return counts;
}

void RefuseOnAllRanks(int rank, const std::string& message) {
  throw Error::Common(ErrorCode::kInvalidArgument, "rank " + std::to_string(rank) + ": " + message);
}

void AllocateTogether(Transport& transport, const std::function<void()>& allocate) {
  std::string failure;
  try {
    allocate();
  } catch (const Error& error) {
    failure = error.what();
  }
  const std::vector<std::string> failures = GatherTexts(transport, failure);
  for (size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    throw Error::Common(ErrorCode::kResourceExhausted,
                        "rank " + std::to_string(rank) +
                            ": Expected memory for the rows of all ranks. " +
                            "Received: " + failures[rank] + " Pass fewer rows at a time.");
  }
}

}  // namespace adasum
