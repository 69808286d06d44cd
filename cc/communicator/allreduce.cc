#include "cc/communicator/allreduce.h"

#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/arithmetic/traced_arithmetic.h"
#include "cc/communicator/blocks.h"
#include "cc/communicator/leaves.h"
#include "cc/reductions/halving_doubling.h"
#include "cc/transport/leaf_transport.h"

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
  return "allreduce(" + tensors.reduction + ") of " + std::to_string(tensors.shapes.size()) + " " +
         DTypeName(tensors.dtype) + " tensors " + ShapesText(tensors.shapes) + " from " +
         std::to_string(tensors.inputs.size()) + " replicas";
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
constexpr int64_t kMoreThanCached = int64_t{4} << 20;

void RunAllreduce(const AllreduceTensors& tensors, const Reduction& reduction,
                  Workplace& workplace) {
  std::vector<int64_t> num_elements;
  for (const Shape& shape : tensors.shapes) num_elements.push_back(NumElements(shape));
  const Segments segments(num_elements);
  const int num_replicas = static_cast<int>(tensors.inputs.size());
  if (static_cast<int>(workplace.scratch.size()) < num_replicas) {
    workplace.scratch.resize(num_replicas);
  }
  CpuArithmetic cpu(ChooseCpuKernels(),
                    segments.num_elements() * ElementBytes(tensors.dtype) >= kMoreThanCached);
  TracedArithmetic traced(&cpu, workplace.timeline);
  Arithmetic& arithmetic = workplace.timeline ? static_cast<Arithmetic&>(traced) : cpu;
  const std::vector<void*> no_outputs;
  auto reduce = [&](int replica, Transport& transport) {
    // The result is the same on every leaf; the first one writes it for the process.
    LeafTensors leaf{tensors.dtype, segments, tensors.inputs[replica],
                     replica == 0 ? tensors.outputs : no_outputs};
    ReduceInBlocks(reduction, leaf, transport, arithmetic, workplace.scratch[replica]);
    arithmetic.Finish();
  };
  if (num_replicas == 1) return reduce(0, workplace.transport);
  ThreadHub hub(num_replicas, workplace.limits);
  ForEachReplica(num_replicas, [&](int replica) {
    LeafTransport transport(&workplace.transport, &hub, replica);
    reduce(replica, transport);
  });
}

// All of the request but whom to tell. Throws InvalidArgument.
Request MakeRequest(AllreduceTensors tensors) {
  const Reduction& reduction = CheckedReduction(tensors.reduction, tensors.dtype);
  Intent intent(tensors.name, Signature(tensors));
  auto run = [tensors = std::move(tensors), &reduction](Workplace& workplace) {
    RunAllreduce(tensors, reduction, workplace);
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

void Simulate(const std::string& reduction, DType dtype, const std::vector<int64_t>& num_elements,
              const std::vector<std::vector<const void*>>& inputs,
              const std::vector<std::vector<void*>>& outputs) {
  const Reduction& checked = CheckedReduction(reduction, dtype);
  const Segments segments(num_elements);
  WaitLimits limits;
  ReadWaitLimits(&limits);
  ThreadHub hub(static_cast<int>(inputs.size()), limits);
  CpuArithmetic arithmetic;
  // Out here, since peers may read a leaf's memory until every leaf is done.
  std::vector<LeafScratch> scratch(inputs.size());
  ForEachReplica(hub.size(), [&](int rank) {
    ThreadTransport transport(&hub, rank);
    HalvingDoubling(checked, {dtype, segments, inputs[rank], outputs[rank]}, transport, arithmetic,
                    scratch[rank]);
  });
}

}  // namespace adasum
