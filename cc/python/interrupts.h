// Ctrl-C while Python's main thread waits in the library.
#ifndef ADASUM_PYTHON_INTERRUPTS_H_
#define ADASUM_PYTHON_INTERRUPTS_H_

namespace adasum {

// Lets waits of the main thread end when SIGINT has come and would raise KeyboardInterrupt. Other
// handlers run when the call is back: what they do may not fit into the midst of a call of
// TensorFlow's. Called with the interpreter's lock, once.
void WatchInterrupts();

// Raises the KeyboardInterrupt that ended a wait of this thread's; does nothing if none did. Not
// before TensorFlow's call is back: it makes its own exception then, and would find this one in the
// way.
void RaiseInterrupt();

}  // namespace adasum

#endif  // ADASUM_PYTHON_INTERRUPTS_H_
