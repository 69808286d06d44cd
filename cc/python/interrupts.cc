#include "cc/python/interrupts.h"

#include <pybind11/pybind11.h>
#include <signal.h>

#include <chrono>
#include <csignal>
#include <utility>

#include "cc/core/backoff.h"

namespace py = pybind11;

namespace adasum {
namespace {

unsigned long main_thread = 0;
// Of the main thread: it was told to end its waits, and Python has not heard of it yet.
bool is_interrupted = false;

// Takes a SIGINT that would raise KeyboardInterrupt; leaves it to Python's own handler otherwise.
bool TakeSignal() {
  // Asking takes the signal back: only so can Python be asked for the handler here, and not run it.
  if (!PyOS_InterruptOccurred()) return false;
  bool raises = false;
  try {
    // Not `signal`, whose functions are Python's: other signals' handlers would run in them.
    const py::module_ signal = py::module_::import("_signal");
    raises = signal.attr("getsignal")(signal.attr("SIGINT")).is(signal.attr("default_int_handler"));
  } catch (const py::error_already_set&) {
    // An interpreter that ends.
  }
  if (!raises) PyErr_SetInterrupt();
  return raises;
}

// Python's own function for SIGINT; null if another was there when this was loaded.
void (*pythons)(int) = nullptr;
volatile std::sig_atomic_t has_come = 0;

void OnInterrupt(int signal) {
  has_come = 1;
  pythons(signal);
}

// Has OnInterrupt called in place of Python's function, which any signal.signal() installs anew.
// Returns false where it was not yet: a signal may have come meanwhile.
bool IsWatching() {
  struct sigaction now;
  if (sigaction(SIGINT, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO)) return false;
  if (now.sa_handler == &OnInterrupt) return true;
  if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) return true;  // Python hears of none
  // No other's: it may call what was there before, and so on in a circle.
  if (pythons != nullptr && now.sa_handler == pythons) {
    now.sa_handler = &OnInterrupt;
    sigaction(SIGINT, &now, nullptr);
  }
  return false;
}

// Whether Python may have a SIGINT that it has not been asked for.
bool MayHaveCome() {
  if (IsWatching() && has_come == 0) return false;
  has_come = 0;
  return true;
}

bool IsMainThreadInterrupted() {
  // Only the main thread comes further, so that it needs no lock. Others have no signals in Python.
  if (PyThread_get_thread_ident() != main_thread || !Py_IsInitialized()) return false;
  if (is_interrupted) return true;
  using Clock = std::chrono::steady_clock;
  static Clock::time_point next{};
  const Clock::time_point now = Clock::now();
  if (now < next) return false;
  next = now + std::chrono::milliseconds(50);
  // Another thread may keep the interpreter's lock for seconds, in which all ranks would wait.
  if (!MayHaveCome()) return false;
  py::gil_scoped_acquire lock;
  is_interrupted = TakeSignal();
  return is_interrupted;
}

}  // namespace

void RaiseInterrupt() {
  // Another thread's request may fail by it: the exception is the main thread's.
  if (PyThread_get_thread_ident() != main_thread) return;
  if (!std::exchange(is_interrupted, false)) return;
  PyErr_SetInterrupt();
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

void WatchInterrupts() {
  const py::module_ threading = py::module_::import("threading");
  main_thread = threading.attr("main_thread")().attr("ident").cast<unsigned long>();
  struct sigaction now;
  const py::module_ signal = py::module_::import("_signal");
  const bool is_pythons = !signal.attr("getsignal")(signal.attr("SIGINT")).is_none();
  if (is_pythons && sigaction(SIGINT, nullptr, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
      now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN) {
    pythons = now.sa_handler;
  }
  SetInterruptQuestion(&IsMainThreadInterrupted);
}

}  // namespace adasum
