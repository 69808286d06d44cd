#include "cc/collectives/refusal.h"

#include "cc/core/error.h"

namespace adasum {

void RefuseOnAllRanks(const Transport& transport, const std::string& message) {
  throw Error::Common(ErrorCode::kInvalidArgument,
                      transport.RankName(transport.rank()) + ": " + message);
}

}  // namespace adasum
