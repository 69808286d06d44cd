#include "cc/collectives/take_together.h"

#include <new>
#include <vector>

#include "cc/core/error.h"
#include "cc/transport/gather.h"

namespace adasum {

void TakeTogether(Transport& transport, const std::function<void()>& take,
                  const std::string& before, const std::string& behind) {
  std::string failure;
  try {
    take();
  } catch (const Error& error) {
    failure = error.what();
  } catch (const std::bad_alloc&) {
    failure = "no memory.";
  }
  const std::vector<std::string> failures = GatherTexts(transport, failure);
  for (size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    throw Error::Common(ErrorCode::kResourceExhausted, transport.RankName(static_cast<int>(rank)) +
                                                           ": " + before + failures[rank] + behind);
  }
}

void AllocateTogether(Transport& transport, const std::string& what,
                      const std::function<void()>& allocate) {
  TakeTogether(transport, allocate, "Expected memory for the " + what + " of all ranks. Received: ",
               " Pass fewer " + what + " at a time.");
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
