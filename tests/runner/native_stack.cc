// Loaded into a test process, tells where in native code it crashed: Python's faulthandler knows
// Python's frames only, and a thread of TensorFlow's has none.

#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int kMostFrames = 40;

// What is standard error now: pytest puts a file in its place while a test runs.
int log_descriptor = STDERR_FILENO;

void Write(const char* text) {
  if (write(log_descriptor, text, std::strlen(text)) < 0) return;  // nobody is left to tell
}

// Nothing here allocates. faulthandler, which is enabled later, speaks first and then raises the
// signal again for this handler; the default action comes after it.
void ShowStack(int signal_number) {
  void* frames[kMostFrames];
  const int count = backtrace(frames, kMostFrames);
  Write("Native stack:\n");
  backtrace_symbols_fd(frames, count, log_descriptor);
  raise(signal_number);
}

struct Handlers {
  Handlers() {
    const int copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    if (copy >= 0) log_descriptor = copy;
    void* frame[1];
    backtrace(frame, 1);  // the first call loads the unwinder
    struct sigaction action = {};
    action.sa_handler = ShowStack;
    action.sa_flags = SA_ONSTACK | SA_RESETHAND;
    for (int signal_number : kSignals) sigaction(signal_number, &action, nullptr);
  }
} handlers;

}  // namespace
