#include "cc/python/arena_arrays.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <utility>
#include <vector>

#include "cc/arena/arena.h"

namespace py = pybind11;

namespace adasum {
namespace {

constexpr int64_t kAlignment = 64;

// An array of the arena's memory, which it gives back at its end; None if there is none left.
py::object EmptyInArena(std::vector<py::ssize_t> shape, const py::dtype& dtype) {
  int64_t num_bytes = dtype.itemsize();
  for (py::ssize_t size : shape) {
    if (__builtin_mul_overflow(num_bytes, size, &num_bytes)) return py::none();
  }
  void* block = Arena::OfProcess().Allocate(num_bytes, kAlignment);
  if (block == nullptr) return py::none();
  py::capsule owner(block, [](void* owned) { Arena::OfProcess().Free(owned); });
  return py::array(dtype, std::move(shape), block, owner);
}

bool InArena(const py::array& array) {
  return Arena::OfProcess().Holds(array.data(), array.nbytes());
}

}  // namespace

void DefineArena(py::module_& module) {
  module.def("empty_in_arena", &EmptyInArena, py::arg("shape"), py::arg("dtype"));
  // Of a C-contiguous array's memory. For tests.
  module.def("in_arena", &InArena, py::arg("array"));
  // Of the arena's file, all pages that it may have; 0 if there is no arena.
  module.def("arena_bytes", [] { return Arena::OfProcess().memory().num_bytes; });
}

}  // namespace adasum
