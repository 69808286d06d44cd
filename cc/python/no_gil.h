// Calls of the library's without the interpreter's lock, also at the end of the interpreter.
#ifndef ADASUM_PYTHON_NO_GIL_H_
#define ADASUM_PYTHON_NO_GIL_H_

#include <Python.h>

namespace adasum {

// Lets the interpreter's other threads run, for the scope. A daemon thread may still be in there
// when the interpreter ends; Python then ends whoever asks for its lock, which C++ answers by
// std::terminate, and the whole job goes with it.
class NoGil {
 public:
  NoGil() : state_(PyEval_SaveThread()) {}
  // Once ParkOtherThreads was called, does not return in other threads than its caller's.
  ~NoGil();
  NoGil(const NoGil&) = delete;
  NoGil& operator=(const NoGil&) = delete;

 private:
  PyThreadState* const state_;
};

// The interpreter is about to end: from here on other threads stay in the library. With the lock,
// by the thread that ends it, when all others but daemons have ended.
void ParkOtherThreads();

}  // namespace adasum

#endif  // ADASUM_PYTHON_NO_GIL_H_
