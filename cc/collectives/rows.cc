#include "cc/collectives/rows.h"

#include <algorithm>
#include <cstring>

#include "cc/core/bytes.h"
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
    throw Error(ErrorCode::kResourceExhausted,
                "rank " + std::to_string(rank) + ": Expected memory for the rows of all ranks. " +
                    "Received: " + failures[rank] + " Pass fewer rows at a time.");
  }
}

namespace {

// In messages of at most kMessageBytes: a wait has a limit, however long a part is.
void SwapParts(Transport& transport, int to, Part sent, int from, PartOfResult received) {
  for (int64_t done = 0; done < std::max(sent.num_bytes, received.num_bytes);
       done += kMessageBytes) {
    const int64_t sent_before = std::min(done, sent.num_bytes);
    const int64_t received_before = std::min(done, received.num_bytes);
    transport.SendRecv(
        {to, At(sent.bytes, sent_before), std::min(sent.num_bytes - sent_before, kMessageBytes)},
        {from, At(received.bytes, received_before),
         std::min(received.num_bytes - received_before, kMessageBytes)});
  }
}

}  // namespace

void ExchangeParts(Transport& transport, const std::function<Part(int)>& give,
                   const std::function<PartOfResult(int)>& take) {
  const int rank = transport.rank(), size = transport.size();
  const Part own = give(rank);
  if (own.num_bytes > 0) std::memcpy(take(rank).bytes, own.bytes, own.num_bytes);
  // Each with another peer at a time, so that no rank is everybody's next.
  for (int distance = 1; distance < size; ++distance) {
    const int to = (rank + distance) % size, from = (rank - distance + size) % size;
    SwapParts(transport, to, give(to), from, take(from));
  }
}

}  // namespace adasum
