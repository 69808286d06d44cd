#include "cc/python/arrays.h"

#include <pybind11/numpy.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cc/collectives/allreduce.h"
#include "cc/collectives/reduction_spec.h"

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

[[noreturn]] void Refuse(int rank, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, "rank " + std::to_string(rank) + ": " + why);
}

// What `parse` makes; this rank is named where it throws.
template <typename Parse>
auto ParseOn(int rank, const Parse& parse) {
  try {
    return parse();
  } catch (const Error& error) {
    Refuse(rank, error.what());
  }
}

// What keeps an array from being reduced where it is; empty where nothing does.
std::string Obstacle(const py::array& array) {
  const char order = array.dtype().byteorder();
  if (!array.writeable()) return "read-only";
  if (!(array.flags() & py::array::c_style)) return "not C-contiguous";
  if (!(array.flags() & py::detail::npy_api::NPY_ARRAY_ALIGNED_)) return "not aligned";
  // NumPy says '=' of this machine's order, also where it was asked for by name.
  if (order == '<' || order == '>') return "of dtype " + std::string(py::str(array.dtype()));
  return "";
}

// The arrays as they are. Throws InvalidArgument unless each can be reduced in place.
std::vector<py::array> CheckedArrays(int rank, const py::list& objects) {
  std::vector<py::array> arrays;
  for (const py::handle& object : objects) {
    if (!py::isinstance<py::array>(object)) {
      Refuse(rank,
             "Expected NumPy arrays. Received: " + std::string(py::str(py::type::of(object))) +
                 ". Pass np.asarray(x), which is then reduced in place.");
    }
    arrays.push_back(py::reinterpret_borrow<py::array>(object));
    const std::string obstacle = Obstacle(arrays.back());
    if (obstacle.empty()) continue;
    Refuse(rank,
           "Expected arrays that are writeable, C-contiguous, aligned and of this machine's "
           "byte order, to be reduced in place. Received: array " +
               std::to_string(arrays.size() - 1) + ", which is " + obstacle +
               ". Pass a copy of it: np.array(x, x.dtype.newbyteorder('='), order='C').");
  }
  return arrays;
}

// Throws InvalidArgument if two arrays have memory in common: each would be reduced into the other.
void CheckApart(int rank, const std::vector<py::array>& arrays) {
  if (arrays.size() == 1) return;
  std::vector<std::pair<const char*, size_t>> begins;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].nbytes() > 0) begins.push_back({static_cast<const char*>(arrays[i].data()), i});
  }
  std::sort(begins.begin(), begins.end());
  for (size_t k = 1; k < begins.size(); ++k) {
    const auto& [before, i] = begins[k - 1];
    const auto& [begin, j] = begins[k];
    if (before + arrays[i].nbytes() <= begin) continue;
    Refuse(rank, "Expected arrays without common memory. Received: arrays " +
                     std::to_string(std::min(i, j)) + " and " + std::to_string(std::max(i, j)) +
                     ", which share some. Pass each array once, and a copy of what overlaps.");
  }
}

}  // namespace

void AllreduceArrays(Communicator& communicator, const py::list& objects,
                     const std::string& reduction, const std::string& name) {
  if (objects.empty()) return;
  const int rank = communicator.rank();
  std::vector<py::array> arrays = CheckedArrays(rank, objects);
  CheckApart(rank, arrays);
  const DType dtype = ParseOn(rank, [&] { return DTypeOf(arrays[0]); });
  ParseOn(rank, [&] { return ReductionSpec::Parse(reduction, "", dtype); });
  AllreduceTensors tensors{name, reduction, dtype, {}, {{}}, {}};
  for (py::array& array : arrays) {
    const DType other = ParseOn(rank, [&] { return DTypeOf(array); });
    if (other != dtype) {
      Refuse(rank, std::string("Expected arrays of one dtype. Received: ") + DTypeName(dtype) +
                       " and " + DTypeName(other) + ". Reduce them in two calls.");
    }
    tensors.shapes.emplace_back(array.shape(), array.shape() + array.ndim());
    tensors.inputs[0].push_back(array.data());
    tensors.outputs.push_back(array.mutable_data());
  }
  py::gil_scoped_release no_lock;
  AllreduceAndWait(communicator, tensors);
}

}  // namespace adasum
