// Allreduce of NumPy arrays, in place.
#ifndef ADASUM_PYTHON_ARRAYS_H_
#define ADASUM_PYTHON_ARRAYS_H_

#include <pybind11/pybind11.h>

#include <string>

#include "cc/engine/communicator.h"

namespace adasum {

// Before the first AllreduceArrays; with the interpreter's lock.
void FindMaskedArrays();

// Reduces an array, or a list of arrays of one dtype, over all ranks, on the calling thread and
// without the interpreter's lock. Throws Error.
void AllreduceArrays(Communicator& communicator, const pybind11::tuple& arrays,
                     const std::string& reduction, const std::string& name);

}  // namespace adasum

#endif  // ADASUM_PYTHON_ARRAYS_H_
