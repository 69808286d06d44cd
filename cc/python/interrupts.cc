#include "cc/python/interrupts.h"

#include <pybind11/pybind11.h>

#include <chrono>
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

bool IsMainThreadInterrupted() {
  // Only the main thread comes further, so that it needs no lock. Others have no signals in Python.
  if (PyThread_get_thread_ident() != main_thread || !Py_IsInitialized()) return false;
  if (is_interrupted) return true;
  using Clock = std::chrono::steady_clock;
  static Clock::time_point next{};
  const Clock::time_point now = Clock::now();
  if (now < next) return false;
  next = now + std::chrono::milliseconds(50);
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
  SetInterruptQuestion(&IsMainThreadInterrupted);
}

}  // namespace adasum
