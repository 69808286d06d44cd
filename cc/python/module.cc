// The pybind11 module: communicators for Python, and simulate(). Errors of the library become
// Python exceptions here, and nowhere else.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "cc/arithmetic/instruction_sets.h"
#include "cc/bootstrap/mpi_contexts_in_use.h"
#include "cc/bootstrap/registry.h"
#include "cc/bootstrap/start_limit.h"
#include "cc/collectives/compressed_allreduce.h"
#include "cc/collectives/simulate.h"
#include "cc/compression/codec.h"
#include "cc/engine/communicator_options.h"
#include "cc/python/arena_arrays.h"
#include "cc/python/arrays.h"
#include "cc/python/interrupts.h"
#include "cc/python/no_gil.h"
#include "cc/reductions/reduction.h"

namespace py = pybind11;

namespace adasum {
namespace {

// The Python side of a group; the registry keeps the group itself.
class PyCommunicator {
 public:
  explicit PyCommunicator(std::shared_ptr<Group> group)
      : group_(std::move(group)), id_(Register(group_)) {}
  // Closes the group, without waiting, unless a function of TensorFlow's uses it still.
  ~PyCommunicator() { Release(id_); }
  PyCommunicator(const PyCommunicator&) = delete;
  PyCommunicator& operator=(const PyCommunicator&) = delete;

  int64_t id() const { return id_; }
  int rank() const { return group_->communicator().rank(); }
  int size() const { return group_->communicator().size(); }
  int local_rank() const { return group_->communicator().topology().local_rank; }
  int local_size() const { return group_->communicator().topology().local_size; }
  const char* instruction_set() const {
    return KernelsOf(group_->communicator().topology().instruction_set).instruction_set;
  }
  const HostRanks& hosts() const { return group_->communicator().topology().hosts; }
  const std::vector<int>& world_ranks() const { return group_->world_ranks(); }
  void Close() { Unregister(id_); }
  void AllreduceArrays(const py::object& arrays, const std::string& reduction,
                       const std::string& name) {
    // What the caller has a list or a generator of stays until the end, whatever becomes of that.
    py::tuple kept = py::isinstance<py::array>(arrays) ? py::make_tuple(arrays) : py::tuple(arrays);
    try {
      adasum::AllreduceArrays(group_->communicator(), kept, reduction, name);
    } catch (const Error& error) {
      if (error.needs_memory_kept()) {
        // Until the process ends.
        kept.release();
        new std::shared_ptr<Group>(group_);
      }
      throw;
    }
  }

  std::unique_ptr<PyCommunicator> Split(std::optional<int> color, int key, const std::string& name,
                                        const GivenOptions& options) {
    std::shared_ptr<Group> group = group_->Split(color, key, name, options);
    return group ? std::make_unique<PyCommunicator>(std::move(group)) : nullptr;
  }

 private:
  std::shared_ptr<Group> group_;
  int64_t id_;
};

// What a group of this process waits in, for tf_adasum/collectives/stalls.py.
struct GroupWait {
  int64_t id;
  // Its name on all ranks: the first rank of all processes in it, and a number there.
  std::pair<int, int> group;
  std::vector<int> world_ranks;
  // Names of operations, oldest first, and since when the oldest waits.
  std::vector<std::string> operations;
  double seconds;
};

std::vector<GroupWait> Waiting() {
  std::vector<GroupWait> waiting;
  for (const auto& [id, group] : OpenGroups()) {
    if (group->world_ranks().size() < 2) continue;
    GroupWait wait{
        id, {group->world_ranks()[0], group->number_at_first()}, group->world_ranks(), {}, 0};
    for (WaitingRequest& request : group->communicator().Waiting()) {
      wait.seconds = std::max(wait.seconds, request.seconds);
      wait.operations.push_back(std::move(request.name));
    }
    if (!wait.operations.empty()) waiting.push_back(std::move(wait));
  }
  return waiting;
}

void AddToTimeline(int64_t id, const std::string& name, double seconds) {
  using Clock = Timeline::Clock;
  // It may have been closed since it was seen to wait.
  const std::map<int64_t, std::shared_ptr<Group>> groups = OpenGroups();
  const auto group = groups.find(id);
  if (group == groups.end()) return;
  Timeline* timeline = group->second->communicator().timeline();
  if (timeline == nullptr) return;
  const std::chrono::duration<double> length(seconds);
  timeline->Add(name, Clock::now() - std::chrono::duration_cast<Clock::duration>(length), -1, 0);
}

// Addresses as integers: NumPy's own pointers, kept alive by the caller for the call.
using Addresses = std::vector<std::vector<uintptr_t>>;

template <typename Pointer>
std::vector<std::vector<Pointer>> ToPointers(const Addresses& addresses) {
  std::vector<std::vector<Pointer>> pointers;
  for (const auto& of_rank : addresses) {
    pointers.emplace_back();
    for (uintptr_t address : of_rank) pointers.back().push_back(reinterpret_cast<Pointer>(address));
  }
  return pointers;
}

void SimulateAddresses(const SimulatedReduction& reduction, const std::string& dtype,
                       const std::vector<int64_t>& num_elements, const Addresses& inputs,
                       const Addresses& outputs) {
  Simulate(reduction, ParseDType(dtype), num_elements, ToPointers<const void*>(inputs),
           ToPointers<void*>(outputs));
}

// `residuals` and `part_residuals` are empty where nothing is kept.
void SimulateCompressedAddresses(const SimulatedReduction& reduction, const std::string& codec,
                                 const std::string& dtype, const std::vector<int64_t>& num_elements,
                                 const Addresses& inputs, const Addresses& outputs,
                                 const Addresses& residuals, const Addresses& part_residuals) {
  SimulateCompressed(reduction, codec, ParseDType(dtype), num_elements,
                     ToPointers<const void*>(inputs), ToPointers<void*>(outputs),
                     {ToPointers<void*>(residuals), ToPointers<void*>(part_residuals)});
}

void TranslateError(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const Error& error) {
    switch (error.code()) {
      case ErrorCode::kInvalidArgument:
        return PyErr_SetString(PyExc_ValueError, error.what());
      case ErrorCode::kDeadlineExceeded:
        return PyErr_SetString(PyExc_TimeoutError, error.what());
      case ErrorCode::kInterrupted:
        RaiseInterrupt();
        return PyErr_SetString(PyExc_RuntimeError, error.what());
      default:
        return PyErr_SetString(PyExc_RuntimeError, error.what());
    }
  }
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  py::register_exception_translator(&TranslateError);
  using NoGil = py::call_guard<adasum::NoGil>;
  WatchInterrupts();
  FindMaskedArrays();
  // After everything of Python's, as mpi4py does it; native.py asks it not to: in a forked child it
  // would wait for ever.
  if (Py_AtExit(&EndMpi) != 0) throw py::import_error("Py_AtExit has no room for another function");

  py::class_<PyCommunicator>(module, "Communicator")
      .def_static(
          "of_self", [] { return std::make_unique<PyCommunicator>(MakeSelfGroup()); }, NoGil())
      .def_static(
          "of_mpi",
          [](int fortran_handle) {
            return std::make_unique<PyCommunicator>(MakeMpiGroup(fortran_handle));
          },
          py::arg("fortran_handle"), NoGil())
      .def("split", &PyCommunicator::Split, py::arg("color"), py::arg("key"), py::arg("name"),
           py::arg("options"), NoGil())
      .def("close",
           [](PyCommunicator& self) {
             {
               const adasum::NoGil no_gil;
               self.Close();
             }
             RaiseInterrupt();  // which may have ended a wait there
           })
      .def("allreduce_arrays", &PyCommunicator::AllreduceArrays, py::arg("arrays"),
           py::arg("reduction") = "adasum", py::arg("name") = "allreduce_arrays")
      .def_property_readonly("id", &PyCommunicator::id)
      .def_property_readonly("rank", &PyCommunicator::rank)
      .def_property_readonly("size", &PyCommunicator::size)
      .def_property_readonly("local_rank", &PyCommunicator::local_rank)
      .def_property_readonly("local_size", &PyCommunicator::local_size)
      .def_property_readonly("instruction_set", &PyCommunicator::instruction_set)
      .def_property_readonly("hosts", &PyCommunicator::hosts)
      .def_property_readonly("world_ranks", &PyCommunicator::world_ranks);

  py::class_<GroupWait>(module, "GroupWait")
      .def_readonly("id", &GroupWait::id)
      .def_readonly("group", &GroupWait::group)
      .def_readonly("world_ranks", &GroupWait::world_ranks)
      .def_readonly("operations", &GroupWait::operations)
      .def_readonly("seconds", &GroupWait::seconds);
  module.def("waiting", &Waiting, NoGil());
  module.def("add_to_timeline", &AddToTimeline, py::arg("id"), py::arg("name"), py::arg("seconds"),
             NoGil());

  py::class_<StartLimit>(module, "StartLimit")
      .def(py::init<const std::string&>(), py::arg("rank"))
      .def("close", &StartLimit::Close, NoGil());

  py::class_<SimulatedReduction>(module, "SimulatedReduction")
      .def(py::init([](std::string reduction, std::string local, std::vector<int> leaves) {
             const CommunicatorOptions options = CommunicatorOptions::FromEnvironment();
             return SimulatedReduction{std::move(reduction), std::move(local), std::move(leaves),
                                       std::min(options.instruction_set, WidestInstructionSet()),
                                       options.timeouts};
           }),
           py::arg("reduction"), py::arg("local_reduction"), py::arg("leaves_per_host"));
  module.def("simulate", &SimulateAddresses, py::arg("reduction"), py::arg("dtype"),
             py::arg("num_elements"), py::arg("inputs"), py::arg("outputs"), NoGil());
  module.def("simulate_compressed", &SimulateCompressedAddresses, py::arg("reduction"),
             py::arg("codec"), py::arg("dtype"), py::arg("num_elements"), py::arg("inputs"),
             py::arg("outputs"), py::arg("residuals"), py::arg("part_residuals"), NoGil());
  module.def("most_part_elements", &MostPartElements, py::arg("num_elements"),
             py::arg("num_ranks"));
  module.def(
      "encoded_bytes",
      [](const std::string& codec, const std::string& dtype, int64_t num_elements, int num_ranks) {
        return EncodedBytes(codec, ParseDType(dtype), num_elements, num_ranks);
      },
      py::arg("codec"), py::arg("dtype"), py::arg("num_elements"), py::arg("num_ranks"));
  module.def(
      "encode_and_decode",
      [](const std::string& codec, const std::string& dtype, int64_t num_elements, int num_ranks,
         uintptr_t values, uintptr_t residual, uintptr_t arrived) {
        EncodeAndDecode(codec, ParseDType(dtype), num_elements, num_ranks,
                        reinterpret_cast<const void*>(values), reinterpret_cast<void*>(residual),
                        reinterpret_cast<void*>(arrived));
      },
      py::arg("codec"), py::arg("dtype"), py::arg("num_elements"), py::arg("num_ranks"),
      py::arg("values"), py::arg("residual"), py::arg("arrived"), NoGil());
  module.def("codec_names", &CodecNames);
  module.def("reduction_names", &ReductionNames);
  module.def("instruction_set", [] {
    const InstructionSet wanted = CommunicatorOptions::FromEnvironment().instruction_set;
    return KernelsOf(std::min(wanted, WidestInstructionSet())).instruction_set;
  });
  module.def("mpi_version", &MpiVersion);
  module.def("mpi_contexts_in_use", &MpiContextsInUse);
  DefineArena(module);
  module.def("shutdown_all", &ShutdownAll, NoGil());
  module.def("park_other_threads", &ParkOtherThreads);
  module.def("raise_interrupt", &RaiseInterrupt);
}

}  // namespace adasum
