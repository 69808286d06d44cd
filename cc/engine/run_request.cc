#include "cc/engine/run_request.h"

#include <exception>
#include <new>
#include <string_view>

namespace adasum {

Error NoMemoryError(const std::string& rank, const Request& request) {
  return Error(ErrorCode::kResourceExhausted,
               rank + ": Expected memory for '" + request.key.name() +
                   "'. Received: none from the system. Give the rank more memory, or reduce fewer "
                   "or smaller tensors at a time.");
}

std::optional<Error> RunRequest(const Request& request, RequestContext context) {
  const auto rank = [&] { return context.transport.RankName(context.transport.rank()); };
  try {
    request.run(context);
    return std::nullopt;
  } catch (const Error& error) {
    const bool is_named = std::string_view(error.what()).substr(0, 5) == "rank ";
    if (error.code() != ErrorCode::kInternal || is_named) return error;
    return Error(ErrorCode::kInternal, rank() + ": " + error.what());
  } catch (const std::bad_alloc&) {
    return NoMemoryError(rank(), request);
  } catch (const std::exception& exception) {
    return Error(ErrorCode::kInternal, rank() + ": " + exception.what());
  }
}

}  // namespace adasum
