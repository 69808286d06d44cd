// Loaded into a test process, tells where in native code it crashed: Python's faulthandler knows
// Python's frames only, and a thread of TensorFlow's has none.

#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int kMostFrames = 40;

void Write(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // nobody is left to tell
}

// Nothing here allocates. faulthandler, which is enabled later, speaks first and then raises the
// signal again for this handler; the default action comes after it.
void ShowStack(int signal_number) {
  void* frames[kMostFrames];
  const int count = backtrace(frames, kMostFrames);
  Write("Native stack:\n");
  backtrace_symbols_fd(frames, count, STDERR_FILENO);
  raise(signal_number);
}

struct Handlers {
  Handlers() {
    void* frame[1];
    backtrace(frame, 1);  // the first call loads the unwinder
    struct sigaction action = {};
    action.sa_handler = ShowStack;
    action.sa_flags = SA_ONSTACK | SA_RESETHAND;
    for (int signal_number : kSignals) sigaction(signal_number, &action, nullptr);
  }
} handlers;

}  // namespace
