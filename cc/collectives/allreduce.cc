#include "cc/collectives/allreduce.h"

#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "cc/collectives/allreduce_execution.h"
#include "cc/collectives/reduction_spec.h"
#include "cc/core/copy_bytes.h"
#include "cc/core/segments.h"

namespace adasum {

std::vector<int64_t> NumElements(const std::vector<Shape>& shapes) {
  std::vector<int64_t> counts;
  for (const Shape& shape : shapes) {
    counts.push_back(
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>()));
  }
  return counts;
}

std::string TextOf(const std::vector<Shape>& shapes) {
  std::string text;
  for (const Shape& shape : shapes) {
    text += text.empty() ? "[" : ", [";
    for (size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
    text += "]";
  }
  return text;
}

std::string ReplicasText(size_t num_replicas, const std::vector<int>& replica_counts) {
  if (replica_counts.empty()) return " from " + std::to_string(num_replicas) + " replicas";
  std::string text;
  for (int count : replica_counts) text += (text.empty() ? "" : ",") + std::to_string(count);
  return " from [" + text + "] replicas";
}

namespace {

// One line that names all that must be equal on every rank.
std::string Signature(const AllreduceTensors& tensors, const ReductionSpec& spec) {
  return "allreduce(" + spec.Text() + ") of " + std::to_string(tensors.shapes.size()) + " " +
         DTypeName(tensors.dtype) + " tensors " + TextOf(tensors.shapes) +
         ReplicasText(tensors.inputs.size(), tensors.replica_counts) +
         (tensors.device == nullptr ? "" : " on GPUs") +
         (tensors.norms == nullptr ? "" : ", measured");
}

// What follows from names, dtype and shapes alone, wherever the tensors lie.
struct Plan {
  ReductionSpec spec;
  RequestKey key;
  Segments segments;
  int64_t enclosed_bytes;  // 0 where tensors don't go with the key
};

// Tensors that make a short vector, of one leaf a rank and one tree over all.
int64_t EnclosedBytes(const AllreduceTensors& tensors, const ReductionSpec& spec,
                      const Segments& segments) {
  const bool is_plain = spec.inside == nullptr && tensors.device == nullptr &&
                        tensors.norms == nullptr && tensors.inputs.size() == 1 &&
                        tensors.replica_counts.empty();
  const int64_t num_bytes = segments.num_elements() * ElementBytes(tensors.dtype);
  return is_plain && num_bytes <= kShortBytes ? num_bytes : 0;
}

// Throws InvalidArgument.
std::shared_ptr<const Plan> MakePlan(const AllreduceTensors& tensors) {
  const ReductionSpec spec =
      ReductionSpec::Parse(tensors.reduction, tensors.local_reduction, tensors.dtype);
  if (spec.inside != nullptr && tensors.device != nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "Expected tensors in host memory for a local reduction. Received: tensors on a "
                "GPU. Run the op on the CPU.");
  }
  if (tensors.device != nullptr && !spec.across->WorksOnDevice()) {
    throw Error(ErrorCode::kInvalidArgument,
                "Expected tensors in host memory for the reduction " + spec.Text() +
                    ". Received: tensors on a GPU. Run the op on the CPU.");
  }
  Segments segments(NumElements(tensors.shapes));
  const int64_t enclosed_bytes = EnclosedBytes(tensors, spec, segments);
  return std::make_shared<const Plan>(Plan{spec, RequestKey(tensors.name, Signature(tensors, spec)),
                                           std::move(segments), enclosed_bytes});
}

// The plans of the last few requests of a thread: a training step repeats them, and to write a
// signature and take its digest takes longer than to swap a short vector.
class RecentPlans {
 public:
  // Throws InvalidArgument.
  std::shared_ptr<const Plan> Of(const AllreduceTensors& tensors) {
    for (const Entry& entry : entries_) {
      if (IsAlike(entry.tensors, tensors)) return entry.plan;
    }
    Entry made{Described(tensors), MakePlan(tensors)};
    if (entries_.size() < kMost) {
      entries_.push_back(std::move(made));
      return entries_.back().plan;
    }
    next_ = (next_ + 1) % kMost;
    return (entries_[next_] = std::move(made)).plan;
  }

 private:
  static constexpr size_t kMost = 8;

  // All that a signature is made of.
  struct Description {
    std::string name, reduction, local_reduction;
    DType dtype;
    std::vector<Shape> shapes;
    size_t num_replicas;
    bool is_on_device, is_measured;
    std::vector<int> replica_counts;
  };
  struct Entry {
    Description tensors;
    std::shared_ptr<const Plan> plan;
  };

  static Description Described(const AllreduceTensors& tensors) {
    return {tensors.name,
            tensors.reduction,
            tensors.local_reduction,
            tensors.dtype,
            tensors.shapes,
            tensors.inputs.size(),
            tensors.device != nullptr,
            tensors.norms != nullptr,
            tensors.replica_counts};
  }
  static bool IsAlike(const Description& known, const AllreduceTensors& tensors) {
    return known.dtype == tensors.dtype && known.num_replicas == tensors.inputs.size() &&
           known.is_on_device == (tensors.device != nullptr) &&
           known.is_measured == (tensors.norms != nullptr) &&
           known.reduction == tensors.reduction && known.name == tensors.name &&
           known.local_reduction == tensors.local_reduction && known.shapes == tensors.shapes &&
           known.replica_counts == tensors.replica_counts;
  }

  std::vector<Entry> entries_;
  size_t next_ = 0;
};

// The caller has it: a thread that carries out requests may be asked for others' plans meanwhile.
std::shared_ptr<const Plan> PlanOf(const AllreduceTensors& tensors) {
  thread_local RecentPlans recent;
  return recent.Of(tensors);
}

// Packed, as they are enclosed.
void WriteInputs(const AllreduceTensors& tensors, const Segments& segments, char* to) {
  const int64_t element_bytes = ElementBytes(tensors.dtype);
  segments.ForEach(segments.all(), [&](int64_t i, Range part) {
    CopyBytes(to + part.begin * element_bytes, tensors.inputs[0][i], part.size() * element_bytes);
  });
}

}  // namespace

Request AllreduceRequest(AllreduceTensors given) {
  const std::shared_ptr<const Plan> plan = PlanOf(given);
  const auto tensors = std::make_shared<const AllreduceTensors>(std::move(given));
  Request request{plan->key,
                  [tensors, plan](RequestContext& context) {
                    ExecuteAllreduce(*tensors, plan->spec, plan->segments, context);
                  },
                  nullptr};
  if (plan->enclosed_bytes > 0) {
    request.enclosure = {plan->enclosed_bytes,
                         [tensors, plan](char* to) { WriteInputs(*tensors, plan->segments, to); }};
  }
  return request;
}

void AllreduceAndWait(Communicator& communicator, const AllreduceTensors& tensors) {
  const std::shared_ptr<const Plan> kept = PlanOf(tensors);
  // Both stay here until it is done; two references need no memory of their own.
  const Plan& plan = *kept;
  const auto run = [&tensors, &plan](RequestContext& context) {
    ExecuteAllreduce(tensors, plan.spec, plan.segments, context);
  };
  const auto write = [&tensors, &plan](char* to) { WriteInputs(tensors, plan.segments, to); };
  Request request{plan.key, run, nullptr};
  request.enclosure = {plan.enclosed_bytes, write};
  communicator.RunAndWait(std::move(request));
}

}  // namespace adasum
