#include "cc/core/transport.h"

#include "cc/core/error.h"

namespace adasum {

void* Transport::Workspace(int64_t) {
  throw Error(ErrorCode::kInternal, "This transport has no workspace of its own.");
}

}  // namespace adasum
