#include "cc/python/arrays.h"

#include <pybind11/numpy.h>

#include "cc/communicator/allreduce.h"

namespace py = pybind11;

namespace adasum {
namespace {

// By kind and size, since NumPy makes a dtype's name anew each time it is asked for it.
DType DTypeOf(const py::array& array) {
  const py::dtype dtype = array.dtype();
  switch (dtype.kind()) {
    case 'f':
      if (dtype.itemsize() == 2) return DType::kFloat16;
      if (dtype.itemsize() == 4) return DType::kFloat32;
      if (dtype.itemsize() == 8) return DType::kFloat64;
      break;
    case 'i':
      if (dtype.itemsize() == 4) return DType::kInt32;
      if (dtype.itemsize() == 8) return DType::kInt64;
      break;
    case 'b':
      return DType::kBool;
    default:
      break;
  }
  return ParseDType(py::str(dtype.attr("name")));
}

// Throws InvalidArgument unless the array can be reduced where it is.
py::array Checked(const py::handle& object) {
  if (!py::isinstance<py::array>(object)) {
    throw Error(ErrorCode::kInvalidArgument,
                "Expected NumPy arrays. Received: " + std::string(py::str(py::type::of(object))));
  }
  auto array = py::reinterpret_borrow<py::array>(object);
  if (!array.writeable() || !(array.flags() & py::array::c_style)) {
    throw Error(ErrorCode::kInvalidArgument,
                "Expected arrays that are writeable and C-contiguous, to be reduced in place. "
                "Received one that is not; pass a copy of it.");
  }
  return array;
}

}  // namespace

void AllreduceArrays(Communicator& communicator, const py::list& arrays,
                     const std::string& reduction, const std::string& name) {
  if (arrays.empty()) return;
  AllreduceTensors tensors{name, reduction, DTypeOf(Checked(arrays[0])), {}, {{}}, {}};
  for (const py::handle& object : arrays) {
    py::array array = Checked(object);
    if (DTypeOf(array) != tensors.dtype) {
      throw Error(ErrorCode::kInvalidArgument,
                  std::string("Expected arrays of one dtype. Received: ") +
                      DTypeName(tensors.dtype) + " and " + DTypeName(DTypeOf(array)) +
                      ". Reduce them in two calls.");
    }
    tensors.shapes.emplace_back(array.shape(), array.shape() + array.ndim());
    tensors.inputs[0].push_back(array.data());
    tensors.outputs.push_back(array.mutable_data());
  }
  py::gil_scoped_release no_lock;
  AllreduceAndWait(communicator, std::move(tensors));
}

}  // namespace adasum
