// A barrier, as a request to a communicator.
#ifndef ADASUM_COLLECTIVES_BARRIER_H_
#define ADASUM_COLLECTIVES_BARRIER_H_

#include <string>

#include "cc/engine/request.h"

namespace adasum {

// Done when all ranks have issued it. `done` is the caller's to set.
Request BarrierRequest(const std::string& name);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_BARRIER_H_
