#include "cc/communicator/allreduce.h"

#include <chrono>
#include <numeric>
#include <optional>

#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/arithmetic/traced_arithmetic.h"
#include "cc/communicator/blocks.h"
#include "cc/communicator/leaf_threads.h"
#include "cc/traversal/traversal.h"

namespace adasum {
namespace {

int64_t NumElements(const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

std::string ShapesText(const std::vector<Shape>& shapes) {
  std::string text;
  for (const Shape& shape : shapes) {
    text += text.empty() ? "[" : ", [";
    for (size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
    text += "]";
  }
  return text;
}

// One line that names all that must be equal on every rank.
std::string Signature(const AllreduceTensors& tensors) {
  std::string local =
      tensors.local_reduction.empty() ? "" : " of each host's " + tensors.local_reduction;
  return "allreduce(" + tensors.reduction + local + ") of " +
         std::to_string(tensors.shapes.size()) + " " + DTypeName(tensors.dtype) + " tensors " +
         ShapesText(tensors.shapes) + " from " + std::to_string(tensors.inputs.size()) +
         " replicas" + (tensors.device == nullptr ? "" : " on GPUs");
}

const Reduction& CheckedReduction(const std::string& name, DType dtype) {
  const Reduction& reduction = FindReduction(name);
  if (!reduction.Supports(dtype)) {
    throw Error(ErrorCode::kInvalidArgument, "Expected a floating dtype for the reduction " + name +
                                                 ". Received: " + DTypeName(dtype) +
                                                 ". Use sum or mean for other dtypes.");
  }
  return reduction;
}

// From here on, a result would be out of the cache again before its user comes to it.
constexpr int64_t kMoreThanCached = int64_t{8} << 20;

// A reduction, and where it is another one, that inside every host.
struct Stages {
  const Reduction* across;
  const Reduction* inside;  // null for one tree over all leaves
};

Stages CheckedStages(const std::string& reduction, const std::string& local, DType dtype) {
  return {&CheckedReduction(reduction, dtype),
          local.empty() ? nullptr : &CheckedReduction(local, dtype)};
}

Segments SegmentsOf(const AllreduceTensors& tensors) {
  std::vector<int64_t> num_elements;
  for (const Shape& shape : tensors.shapes) num_elements.push_back(NumElements(shape));
  return Segments(num_elements);
}

// The leaves of some ranks.
std::vector<int> LeavesOf(const std::vector<int>& ranks, int num_replicas) {
  std::vector<int> leaves;
  for (int rank : ranks) {
    for (int r = 0; r < num_replicas; ++r) leaves.push_back(rank * num_replicas + r);
  }
  return leaves;
}

// In one block: a device's memory is no cache, and every launch costs the same. `leaf` must outlive
// what is returned.
ReduceOnDevice OnDevice(const std::string& name, const Reduction& reduction,
                        const LeafTensors& leaf) {
  return {name,
          [&leaf](const Arithmetic& arithmetic, const Transport& wire) {
            return RoomOf(leaf, wire, arithmetic);
          },
          [&](Arithmetic& arithmetic, Transport& wire, LeafScratch& scratch) {
            ReduceLeaves(reduction, leaf, wire, arithmetic, scratch);
          }};
}

// Notes in `lacking` that the leaves lack memory, which all find out: an exception would end the
// waits of the other replicas, of which some may still have to tell other ranks.
void RunOnDevice(DeviceTensors& tensors, int replica, Transport& transport,
                 const WaitLimits& limits, const ReduceOnDevice& reduce,
                 std::optional<Error>* lacking) {
  try {
    tensors.Run(replica, transport, limits, reduce);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResourceExhausted) throw;
    *lacking = error;
  }
}

void ThrowFirst(const std::vector<std::optional<Error>>& errors) {
  for (const std::optional<Error>& error : errors) {
    if (error) throw *error;
  }
}

// Over all replicas of all ranks, in one tree, or of the ranks of this host alone where there is a
// `hierarchy`.
void ReduceReplicas(const AllreduceTensors& tensors, const Reduction& reduction,
                    Hierarchy* hierarchy, Arithmetic& arithmetic, Workplace& workplace) {
  const Segments segments = SegmentsOf(tensors);
  const int num_replicas = static_cast<int>(tensors.inputs.size());
  if (static_cast<int>(workplace.scratch.size()) < num_replicas) {
    workplace.scratch.resize(num_replicas);
  }
  const std::vector<void*> no_outputs;
  std::vector<std::optional<Error>> lacking(num_replicas);
  auto reduce = [&](int replica, Transport& transport) {
    // The result is the same on every leaf; the first one writes it for the process.
    LeafTensors leaf{tensors.dtype, segments, tensors.inputs[replica],
                     replica == 0 ? tensors.outputs : no_outputs};
    if (tensors.device != nullptr) {
      const std::string name = "rank " + std::to_string(workplace.transport.rank());
      return RunOnDevice(*tensors.device, replica, transport, workplace.limits,
                         OnDevice(name, reduction, leaf), &lacking[replica]);
    }
    ReduceInBlocks(reduction, leaf, transport, arithmetic, workplace.scratch[replica]);
    arithmetic.Finish();
  };
  if (num_replicas == 1) {
    reduce(0, hierarchy ? hierarchy->host() : workplace.transport);
    return ThrowFirst(lacking);
  }
  workplace.leaves.ForEach(num_replicas, [&](int replica, Transport& all) {
    if (hierarchy == nullptr) return reduce(replica, all);
    GroupTransport host(&all, LeavesOf(hierarchy->host_ranks(), num_replicas),
                        GroupTransport::Reach::kOneHost);
    reduce(replica, host);
  });
  ThrowFirst(lacking);
}

void RunStages(const AllreduceTensors& tensors, const Stages& stages, CpuArithmetic& cpu,
               Workplace& workplace) {
  // Replicas have threads of their own. Equal on all ranks, whether or not they have threads to
  // lend: steps are as long as the cores are many, and both sides take the same.
  const int num_cores = workplace.cores / static_cast<int>(tensors.inputs.size());
  ParallelArithmetic parallel(&cpu, num_cores, tensors.lend);
  Arithmetic& chosen = num_cores > 1 ? static_cast<Arithmetic&>(parallel) : cpu;
  TracedArithmetic traced(&chosen, workplace.timeline);
  Arithmetic& arithmetic = workplace.timeline ? static_cast<Arithmetic&>(traced) : chosen;
  if (stages.inside == nullptr) {
    return ReduceReplicas(tensors, *stages.across, nullptr, arithmetic, workplace);
  }
  const Segments segments = SegmentsOf(tensors);
  Hierarchy hierarchy(&workplace.transport, workplace.hosts, &workplace.hierarchy_scratch);
  {
    TimelineSpan span(workplace.timeline, "inside the host");
    ReduceReplicas(tensors, *stages.inside, &hierarchy, arithmetic, workplace);
  }
  TimelineSpan span(workplace.timeline, "across hosts");
  hierarchy.CombineHosts(*stages.across, tensors.dtype, segments, tensors.outputs, arithmetic);
}

void RunAllreduce(const AllreduceTensors& tensors, const Stages& stages, Workplace& workplace) {
  workplace.leaves.Open(static_cast<int>(tensors.inputs.size()));
  const StoreChoice::Kind kind{tensors.reduction, tensors.outputs[0] == tensors.inputs[0][0],
                               SegmentsOf(tensors).num_elements() * ElementBytes(tensors.dtype)};
  const bool is_large = kind.num_bytes >= kMoreThanCached;
  const bool passes_caches = is_large && workplace.store_choice.PassesCaches(kind);
  CpuArithmetic cpu(workplace.kernels, passes_caches);
  const auto begin = std::chrono::steady_clock::now();
  RunStages(tensors, stages, cpu, workplace);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (is_large) workplace.store_choice.Note(kind, passes_caches, took.count());
}

// All of the request but whom to tell. Throws InvalidArgument.
Request MakeRequest(AllreduceTensors tensors) {
  const Stages stages = CheckedStages(tensors.reduction, tensors.local_reduction, tensors.dtype);
  if (stages.inside != nullptr && tensors.device != nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "Expected tensors in host memory for a local reduction. Received: tensors on a "
                "GPU. Run the op on the CPU.");
  }
  Intent intent(tensors.name, Signature(tensors));
  auto run = [tensors = std::move(tensors), stages](Workplace& workplace) {
    RunAllreduce(tensors, stages, workplace);
  };
  return {std::move(intent), std::move(run), nullptr};
}

void RunBroadcast(const BroadcastTensors& tensors, Transport& transport) {
  // A binomial tree, in ranks counted from the root: rank r hears from r without its lowest bit.
  int size = transport.size();
  int rank = (transport.rank() - tensors.root + size) % size;
  auto peer = [&](int relative) { return (relative + tensors.root) % size; };
  for (size_t i = 0; i < tensors.buffers.size(); ++i) {
    void* bytes = tensors.buffers[i];
    int64_t num_bytes = tensors.num_bytes[i];
    int bit = 1;
    for (; bit < size && (rank & bit) == 0; bit *= 2) {
    }
    if (rank != 0) transport.SendRecv({0, nullptr, 0}, {peer(rank - bit), bytes, num_bytes});
    for (bit /= 2; bit > 0; bit /= 2) {
      if (rank + bit < size) {
        transport.SendRecv({peer(rank + bit), bytes, num_bytes}, {0, nullptr, 0});
      }
    }
  }
}

// Hosts of so many leaves each, neighbours together.
HostRanks HostsOfNeighbours(const std::vector<int>& leaves_per_host, int num_leaves) {
  HostRanks hosts;
  int64_t next = 0;
  for (int64_t count : leaves_per_host) {
    if (count < 1 || count > num_leaves - next) next = num_leaves + 1;
    if (next > num_leaves) break;
    hosts.emplace_back(count);
    std::iota(hosts.back().begin(), hosts.back().end(), next);
    next += count;
  }
  if (next == num_leaves) return hosts;
  throw Error(ErrorCode::kInvalidArgument,
              "Expected counts of leaves per host, each at least 1, that add up to " +
                  std::to_string(num_leaves));
}

}  // namespace

void Allreduce(Communicator& communicator, AllreduceTensors tensors, Done done) {
  try {
    Request request = MakeRequest(std::move(tensors));
    request.done = done;
    communicator.Enqueue(std::move(request));
  } catch (const Error& error) {
    done(&error);
  }
}

void AllreduceAndWait(Communicator& communicator, AllreduceTensors tensors) {
  communicator.RunAndWait(MakeRequest(std::move(tensors)));
}

void Broadcast(Communicator& communicator, BroadcastTensors tensors, Done done) {
  if (tensors.root < 0 || tensors.root >= communicator.size()) {
    Error error(ErrorCode::kInvalidArgument, "Expected a root in [0, " +
                                                 std::to_string(communicator.size()) +
                                                 "). Received: " + std::to_string(tensors.root));
    return done(&error);
  }
  Intent intent(tensors.name,
                "broadcast from " + std::to_string(tensors.root) + " of " + tensors.signature);
  auto run = [tensors = std::move(tensors)](Workplace& workplace) {
    RunBroadcast(tensors, workplace.transport);
  };
  communicator.Enqueue({std::move(intent), std::move(run), std::move(done)});
}

void Simulate(const SimulatedReduction& simulated, DType dtype,
              const std::vector<int64_t>& num_elements,
              const std::vector<std::vector<const void*>>& inputs,
              const std::vector<std::vector<void*>>& outputs) {
  const Stages stages = CheckedStages(simulated.reduction, simulated.local_reduction, dtype);
  const int num_leaves = static_cast<int>(inputs.size());
  const HostRanks hosts = HostsOfNeighbours(simulated.leaves_per_host, num_leaves);
  const Segments segments(num_elements);
  WaitLimits limits;
  ReadWaitLimits(&limits);
  ThreadHub hub(num_leaves, limits);
  CpuArithmetic arithmetic(KernelsOf(simulated.instruction_set));
  // Out here, since peers may read a leaf's memory until every leaf is done.
  std::vector<LeafScratch> scratch(num_leaves);
  std::vector<HierarchyScratch> hierarchy_scratch(num_leaves);
  LeafThreads threads(&limits);
  threads.Grow(num_leaves);
  threads.ForEach(&hub, [&](int rank) {
    ThreadTransport transport(&hub, rank);
    const LeafTensors leaf{dtype, segments, inputs[rank], outputs[rank]};
    if (stages.inside == nullptr) {
      return ReduceLeaves(*stages.across, leaf, transport, arithmetic, scratch[rank]);
    }
    Hierarchy hierarchy(&transport, hosts, &hierarchy_scratch[rank]);
    ReduceLeaves(*stages.inside, leaf, hierarchy.host(), arithmetic, scratch[rank]);
    hierarchy.CombineHosts(*stages.across, dtype, segments, outputs[rank], arithmetic);
  });
}

}  // namespace adasum
