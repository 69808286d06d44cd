#include "cc/collectives/allocate_together.h"

#include <new>
#include <vector>

#include "cc/core/error.h"
#include "cc/transport/gather.h"

namespace adasum {

void AllocateTogether(Transport& transport, const std::string& what,
                      const std::function<void()>& allocate) {
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
                        "rank " + std::to_string(rank) + ": Expected memory for the " + what +
                            " of all ranks. Received: " + failures[rank] + " Pass fewer " + what +
                            " at a time.");
  }
}

void AllocateScratch(Scratch* scratch, int64_t num_bytes) {
  try {
    scratch->Get(num_bytes);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kResourceExhausted,
                "no memory for " + std::to_string(num_bytes) + " bytes.");
  }
}

}  // namespace adasum
