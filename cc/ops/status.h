// The one place where our exceptions become TensorFlow's statuses.
#ifndef ADASUM_OPS_STATUS_H_
#define ADASUM_OPS_STATUS_H_

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "cc/core/error.h"

namespace adasum {

// Null means success.
inline absl::Status ToStatus(const Error* error) {
  if (error == nullptr) return absl::OkStatus();
  switch (error->code()) {
    case ErrorCode::kInvalidArgument:
      return absl::InvalidArgumentError(error->what());
    case ErrorCode::kDeadlineExceeded:
      return absl::DeadlineExceededError(error->what());
    case ErrorCode::kUnavailable:
      return absl::UnavailableError(error->what());
    case ErrorCode::kResourceExhausted:
      return absl::ResourceExhaustedError(error->what());
    case ErrorCode::kInterrupted:
      return absl::CancelledError(error->what());
    case ErrorCode::kInternal:
      break;
  }
  return absl::InternalError(error->what());
}

// What `body` returns, or the status of what it throws: kernels run all of ours through this, for
// no exception may cross the border to TensorFlow.
template <typename Body>
absl::Status StatusOf(const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    return ToStatus(&error);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "Expected memory for an operation. Received: none from the system. Give this rank more "
        "memory, or reduce fewer or smaller tensors at a time.");
  } catch (const std::exception& exception) {
    return absl::InternalError(exception.what());
  }
}

}  // namespace adasum

#endif  // ADASUM_OPS_STATUS_H_
