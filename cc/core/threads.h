// Threads that may be refused.
#ifndef ADASUM_CORE_THREADS_H_
#define ADASUM_CORE_THREADS_H_

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "cc/core/error.h"

namespace adasum {

// Throws ResourceExhausted where the system has no thread for `what`.
template <typename Body>
std::thread StartThread(const std::string& what, Body body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kResourceExhausted,
                "Expected a thread for " + what + ". Received from the system: " + error.what() +
                    ". Allow this process more threads and memory (ulimit -u, -v).");
  }
}

}  // namespace adasum

#endif  // ADASUM_CORE_THREADS_H_
