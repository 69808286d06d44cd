// Carries out one request.
#ifndef ADASUM_ENGINE_RUN_REQUEST_H_
#define ADASUM_ENGINE_RUN_REQUEST_H_

#include <optional>
#include <string>

#include "cc/core/error.h"
#include "cc/engine/request.h"

namespace adasum {

// Nothing but Error leaves, which says the rank.
std::optional<Error> RunRequest(const Request& request, RequestContext context);

// A rank, named as by Transport::RankName, has no memory for a request.
Error NoMemoryError(const std::string& rank, const Request& request);

}  // namespace adasum

#endif  // ADASUM_ENGINE_RUN_REQUEST_H_
