// A child process whose failed checks fail the test.
#ifndef ADASUM_TESTS_CC_CHILD_PROCESS_H_
#define ADASUM_TESTS_CC_CHILD_PROCESS_H_

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/cc/check.h"

namespace adasum {
namespace test {

// Forks, runs it there and waits for its end.
inline void InChild(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(NumFailures() > 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK_EQ(status, 0);
}

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_CHILD_PROCESS_H_
