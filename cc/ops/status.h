// The one place where our errors become TensorFlow's.
#ifndef ADASUM_OPS_STATUS_H_
#define ADASUM_OPS_STATUS_H_

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

}  // namespace adasum

#endif  // ADASUM_OPS_STATUS_H_
