// The one exception type of the library. It stays inside the library: ops/ turns it into a
// Status and python/ into a Python exception, so that none crosses an ABI border.
#ifndef ADASUM_CORE_ERROR_H_
#define ADASUM_CORE_ERROR_H_

#include <stdexcept>
#include <string>

namespace adasum {

enum class ErrorCode {
  kInvalidArgument,    // the caller, or a peer, passed something that does not fit
  kDeadlineExceeded,   // a peer did not come within the limit
  kUnavailable,        // the communicator is closed or broken
  kResourceExhausted,  // a rank lacks threads or memory
  kInternal,           // a library below us (MPI, the system) failed
  kInterrupted,        // the user interrupted the wait: Ctrl-C
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

  // Of a request that all ranks fail alike, with nothing under way: the communicator can be used
  // afterwards.
  static Error Common(ErrorCode code, const std::string& message) {
    Error error(code, message);
    error.is_common_ = true;
    return error;
  }
  bool is_common() const { return is_common_; }

  // Whether the request's tensors must stay until the process ends: a message that was given up may
  // still be read from them, or arrive in them (Transport::HasAbandoned).
  bool needs_memory_kept() const { return needs_memory_kept_; }
  void SetNeedsMemoryKept() { needs_memory_kept_ = true; }

 private:
  ErrorCode code_;
  bool is_common_ = false;
  bool needs_memory_kept_ = false;
};

}  // namespace adasum

#endif  // ADASUM_CORE_ERROR_H_
