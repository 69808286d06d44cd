#include "cc/python/arrays.h"

#include <pybind11/numpy.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cc/collectives/allreduce.h"
#include "cc/collectives/reduction_spec.h"
#include "cc/python/no_gil.h"

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

// numpy.ma.MaskedArray, whose mask no reduction looks at.
PyTypeObject* masked_array = nullptr;

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

// Adds an array to the tensors, behind `number` others. Throws InvalidArgument unless it can be
// reduced in place, with them.
void Add(int rank, const py::handle& object, size_t number, AllreduceTensors* tensors) {
  if (!py::isinstance<py::array>(object)) {
    Refuse(rank, "Expected NumPy arrays. Received: " + std::string(py::str(py::type::of(object))) +
                     ". Pass np.asarray(x), which is then reduced in place.");
  }
  if (PyObject_TypeCheck(object.ptr(), masked_array)) {
    throw py::type_error("rank " + std::to_string(rank) +
                         ": Expected arrays whose elements all count. Received: a masked array. "
                         "Pass array.filled(0), and reduce the mask by itself.");
  }
  auto array = py::reinterpret_borrow<py::array>(object);
  const std::string obstacle = Obstacle(array);
  if (!obstacle.empty()) {
    Refuse(rank,
           "Expected arrays that are writeable, C-contiguous, aligned and of this machine's "
           "byte order, to be reduced in place. Received: array " +
               std::to_string(number) + ", which is " + obstacle +
               ". Pass a copy of it: np.array(x, x.dtype.newbyteorder('='), order='C').");
  }
  const DType dtype = ParseOn(rank, [&] { return DTypeOf(array); });
  if (number == 0) tensors->dtype = dtype;
  if (dtype != tensors->dtype) {
    Refuse(rank, std::string("Expected arrays of one dtype. Received: ") +
                     DTypeName(tensors->dtype) + " and " + DTypeName(dtype) +
                     ". Reduce them in two calls.");
  }
  tensors->shapes[number].assign(array.shape(), array.shape() + array.ndim());
  tensors->inputs[0][number] = array.data();
  tensors->outputs[number] = array.mutable_data();
}

// Throws InvalidArgument if two arrays have memory in common: each would be reduced into the other.
void CheckApart(int rank, const AllreduceTensors& tensors) {
  if (tensors.shapes.size() == 1) return;
  const std::vector<int64_t> num_elements = NumElements(tensors.shapes);
  const auto end_of = [&](const char* begin, size_t i) {
    return begin + num_elements[i] * ElementBytes(tensors.dtype);
  };
  std::vector<std::pair<const char*, size_t>> begins;
  for (size_t i = 0; i < num_elements.size(); ++i) {
    if (num_elements[i] == 0) continue;
    begins.push_back({static_cast<const char*>(tensors.inputs[0][i]), i});
  }
  std::sort(begins.begin(), begins.end());
  for (size_t k = 1; k < begins.size(); ++k) {
    const auto& [before, i] = begins[k - 1];
    const auto& [begin, j] = begins[k];
    if (end_of(before, i) <= begin) continue;
    Refuse(rank, "Expected arrays without common memory. Received: arrays " +
                     std::to_string(std::min(i, j)) + " and " + std::to_string(std::max(i, j)) +
                     ", which share some. Pass each array once, and a copy of what overlaps.");
  }
}

}  // namespace

void FindMaskedArrays() {
  const py::object type = py::module_::import("numpy.ma").attr("MaskedArray");
  masked_array = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
}

void AllreduceArrays(Communicator& communicator, const py::tuple& arrays,
                     const std::string& reduction, const std::string& name) {
  const bool is_none = arrays.empty();
  if (is_none && communicator.size() == 1) return;
  // A rank without arrays takes part by one without elements: ranks that have some hear of it, and
  // don't meet its next call.
  const size_t count = is_none ? 1 : arrays.size();
  const int rank = communicator.world_rank();
  // Its vectors keep their memory from call to call: to take it anew takes as long as a message.
  // Taken out meanwhile: a dtype's name may be asked for by Python, which may run the handler of a
  // signal, and this function in it.
  thread_local AllreduceTensors kept{"", "", DType::kFloat32, {}, {}, {}};
  AllreduceTensors tensors = std::move(kept);
  tensors.inputs.resize(1);
  tensors.name = name;
  tensors.reduction = reduction;
  tensors.shapes.resize(count);
  tensors.inputs[0].resize(count);
  tensors.outputs.resize(count);
  if (is_none) {
    tensors.dtype = DType::kFloat32;
    tensors.shapes[0] = {0};
    tensors.inputs[0][0] = tensors.outputs[0] = nullptr;
  }
  for (size_t i = 0; i < arrays.size(); ++i) Add(rank, arrays[i], i, &tensors);
  CheckApart(rank, tensors);
  ParseOn(rank, [&] { return ReductionSpec::Parse(reduction, "", tensors.dtype); });
  {
    const NoGil no_gil;
    AllreduceAndWait(communicator, tensors);
  }
  kept = std::move(tensors);
}

}  // namespace adasum
