// NumPy arrays in the arena.
#ifndef ADASUM_PYTHON_ARENA_ARRAYS_H_
#define ADASUM_PYTHON_ARENA_ARRAYS_H_

#include <pybind11/pybind11.h>

namespace adasum {

// Adds empty_in_arena, in_arena and arena_bytes to the module.
void DefineArena(pybind11::module_& module);

}  // namespace adasum

#endif  // ADASUM_PYTHON_ARENA_ARRAYS_H_
