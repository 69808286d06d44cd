#include "cc/collectives/allreduce_execution.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "cc/algorithms/reduce_leaves.h"
#include "cc/algorithms/whole_tree.h"
#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/arithmetic/traced_arithmetic.h"
#include "cc/collectives/blocks.h"
#include "cc/collectives/collective_state.h"
#include "cc/collectives/tuner.h"
#include "cc/core/leaf_numbers.h"

namespace adasum {
namespace {

constexpr int64_t kWorthTimingInReach = int64_t{64} << 10;
// Where the caller lends no threads. A guess: on no machine with cores to spare was it measured.
constexpr int64_t kWorthHelping = int64_t{1} << 20;

// The leaves of some ranks.
std::vector<int> LeavesOf(const std::vector<int>& ranks, const LeafNumbers& numbers) {
  std::vector<int> leaves;
  for (int rank : ranks) {
    for (int r = 0; r < numbers.CountOf(rank); ++r) leaves.push_back(numbers.FirstOf(rank) + r);
  }
  return leaves;
}

class Execution {
 public:
  Execution(const AllreduceTensors& tensors, const ReductionSpec& spec, const Segments& segments,
            RequestContext& context)
      : tensors_(tensors),
        spec_(spec),
        context_(context),
        state_(StateOf(context)),
        segments_(segments),
        num_replicas_(static_cast<int>(tensors.inputs.size())) {
    // A rank with a replica among ranks with one each is a leaf itself.
    if (num_replicas_ == 1 && tensors.replica_counts.empty()) return;
    numbers_.emplace(tensors.replica_counts, context.transport.size(), num_replicas_);
  }

  void Run() {
    if (context_.enclosed.first != nullptr) return ReduceEnclosed();
    if (tensors_.norms != nullptr) {
      std::fill_n(tensors_.norms, segments_.size(), SquaredNorms());
    }
    if (numbers_) state_.leaves.Open(*numbers_);
    if (static_cast<int>(state_.scratch.size()) < num_replicas_) {
      state_.scratch.resize(num_replicas_);
    }
    const int64_t num_bytes = segments_.num_elements() * ElementBytes(tensors_.dtype);
    LearnTuning(num_bytes);
    const bool is_in_reach = num_bytes >= kWorthTimingInReach && LiesInReach();
    if (MayDeliverPastCaches(num_bytes, is_in_reach)) return RunTimed(num_bytes, is_in_reach);
    CpuArithmetic cpu(KernelsOf(context_.topology.instruction_set), false);
    RunWith(cpu);
  }

 private:
  // Nothing more is sent: all that the result is made of is here.
  void ReduceEnclosed() {
    const int64_t num_bytes = segments_.num_elements() * ElementBytes(tensors_.dtype);
    std::vector<void*> vectors(context_.transport.size());
    for (int rank = 0; rank < context_.transport.size(); ++rank) {
      vectors[rank] = context_.enclosed.Of(rank);
      if (context_.timeline == nullptr || rank == context_.transport.rank()) continue;
      context_.timeline->Add("enclosed", Timeline::Clock::now(), rank, num_bytes);
    }
    if (state_.scratch.empty()) state_.scratch.resize(1);
    CpuArithmetic cpu(KernelsOf(context_.topology.instruction_set), false);
    TracedArithmetic traced(&cpu, context_.timeline);
    const bool is_traced = context_.timeline != nullptr;
    Arithmetic& arithmetic = is_traced ? static_cast<Arithmetic&>(traced) : cpu;
    ReduceWholeTree({tensors_.dtype, segments_, tensors_.inputs[0], tensors_.outputs},
                    {*spec_.across, context_.transport, arithmetic, state_.scratch[0]}, vectors);
  }

  // Results are written to peers' memory where they lie in reach: a peer's cache may have the
  // lines, however few they are, but for those of inputs, which this rank has just read.
  bool MayDeliverPastCaches(int64_t num_bytes, bool is_in_reach) const {
    return is_in_reach ? !IsInPlace() : num_bytes >= kMoreThanCached;
  }
  bool IsInPlace() const { return tensors_.outputs[0] == tensors_.inputs[0][0]; }

  void RunTimed(int64_t num_bytes, bool is_in_reach) {
    const StreamingStorePolicy::Kind kind{tensors_.reduction, IsInPlace(), num_bytes, is_in_reach};
    const bool uses_streaming_stores = state_.streaming_store_policy.UsesStreamingStores(kind);
    CpuArithmetic cpu(KernelsOf(context_.topology.instruction_set), uses_streaming_stores);
    BusyTime busy;
    RunWith(cpu, &busy);
    state_.streaming_store_policy.Note(kind, uses_streaming_stores, busy.seconds());
  }

  // Once, by the first allreduce for which it matters.
  void LearnTuning(int64_t num_bytes) {
    if (state_.is_tuned || num_bytes < kWorthTuning) return;
    if (!context_.transport.requires_workspace()) return;
    state_.tuning = ChooseTuning(context_);
    state_.is_tuned = true;
  }

  void RunWith(CpuArithmetic& cpu, BusyTime* busy = nullptr) {
    // Replicas have threads of their own. Equal on all ranks, whether or not they have threads to
    // lend: steps are as long as the cores are many, and both sides take the same.
    const int num_cores = context_.topology.cores / (numbers_ ? numbers_->most_replicas() : 1);
    ParallelArithmetic parallel(&cpu, num_cores, Helpers(num_cores - 1));
    Arithmetic& chosen = num_cores > 1 ? static_cast<Arithmetic&>(parallel) : cpu;
    TracedArithmetic traced(&chosen, context_.timeline, busy);
    const bool is_traced = context_.timeline != nullptr || busy != nullptr;
    RunStages(is_traced ? static_cast<Arithmetic&>(traced) : chosen);
  }

  // What hands work to other threads: the caller's, else the communicator's own.
  LendThread Helpers(int most) {
    const int64_t num_bytes = segments_.num_elements() * ElementBytes(tensors_.dtype);
    if (tensors_.lend || most < 1 || num_bytes < kWorthHelping) return tensors_.lend;
    return state_.helpers.Lend(most);
  }

  void RunStages(Arithmetic& arithmetic) {
    if (spec_.inside == nullptr) return ReduceReplicas(*spec_.across, nullptr, arithmetic);
    Hierarchy hierarchy(&context_.transport, context_.topology.hosts, &state_.hierarchy_scratch);
    {
      TimelineSpan span(context_.timeline, "inside the host");
      ReduceReplicas(*spec_.inside, &hierarchy, arithmetic);
    }
    TimelineSpan span(context_.timeline, "across hosts");
    hierarchy.CombineHosts(*spec_.across, tensors_.dtype, segments_, tensors_.outputs, arithmetic,
                           tensors_.norms);
  }

  // Whether the longest tensor lies where peers reach it; mostly all or none do.
  bool LiesInReach() const {
    if (numbers_ || segments_.size() == 0) return false;
    const auto bytes = [&](int64_t i) {
      return (segments_.offset(i + 1) - segments_.offset(i)) * ElementBytes(tensors_.dtype);
    };
    int64_t longest = 0;
    for (int64_t i = 1; i < segments_.size(); ++i) {
      if (bytes(i) > bytes(longest)) longest = i;
    }
    return context_.transport.Locate(tensors_.inputs[0][longest], bytes(longest)) >= 0;
  }

  // Over all replicas of all ranks, in one tree, or of the ranks of this host alone where there is
  // a `hierarchy`.
  void ReduceReplicas(const Reduction& reduction, Hierarchy* hierarchy, Arithmetic& arithmetic) {
    std::vector<std::optional<Error>> lacking(num_replicas_);
    auto reduce = [&](int replica, Transport& wire) {
      const CollectiveContext with{reduction, wire, arithmetic, state_.scratch[replica],
                                   state_.tuning};
      lacking[replica] = ReduceReplica(replica, with, hierarchy);
    };
    if (!numbers_) {
      reduce(0, hierarchy ? hierarchy->host() : context_.transport);
    } else {
      state_.leaves.ForEach(*numbers_, [&](int replica, Transport& all) {
        if (hierarchy == nullptr) return reduce(replica, all);
        SubsetTransport host(&all, LeavesOf(hierarchy->host_ranks(), *numbers_));
        reduce(replica, host);
      });
    }
    for (const std::optional<Error>& error : lacking) {
      if (error) throw *error;
    }
  }

  // Returns the error if a device lacks memory, which all leaves find out: an exception would end
  // the waits of the other replicas, of which some may still have to tell other ranks.
  std::optional<Error> ReduceReplica(int replica, const CollectiveContext& with,
                                     Hierarchy* hierarchy) {
    // The result is the same on every leaf; the first one writes it for the process.
    const std::vector<void*> no_outputs;
    const LeafTensors leaf{tensors_.dtype, segments_, tensors_.inputs[replica],
                           replica == 0 ? tensors_.outputs : no_outputs,
                           hierarchy ? nullptr : Norms(replica)};
    if (tensors_.device == nullptr) {
      // Leaves that share a process want the whole result there.
      hierarchy && !numbers_ ? hierarchy->ReduceHost(leaf, with) : ReduceInBlocks(leaf, with);
      with.arithmetic.Finish();
      return std::nullopt;
    }
    try {
      tensors_.device->Run(replica, with.transport, context_.waits, OnDevice(leaf, with.reduction));
      return std::nullopt;
    } catch (const Error& error) {
      if (!error.is_common()) throw;
      return error;
    }
  }

  // All leaves must ask, where any does.
  SquaredNorms* Norms(int replica) {
    if (tensors_.norms == nullptr || tensors_.device != nullptr) return nullptr;
    if (replica == 0) return tensors_.norms;
    std::vector<SquaredNorms>& unread = state_.scratch[replica].norms.unread;
    unread.resize(segments_.size());
    return unread.data();
  }

  // In one block: a device's memory is no cache, and every launch costs the same. `leaf` must
  // outlive what is returned.
  ReduceOnDevice OnDevice(const LeafTensors& leaf, const Reduction& reduction) const {
    return {context_.transport.RankName(context_.transport.rank()),
            [&leaf](const Arithmetic& arithmetic, const Transport& wire) {
              return RoomOf(leaf, wire, arithmetic);
            },
            [&](Arithmetic& arithmetic, Transport& wire, LeafScratch& scratch) {
              ReduceLeaves(leaf, {reduction, wire, arithmetic, scratch});
            }};
  }

  const AllreduceTensors& tensors_;
  const ReductionSpec& spec_;
  RequestContext& context_;
  CollectiveState& state_;
  const Segments& segments_;
  const int num_replicas_;
  std::optional<LeafNumbers> numbers_;  // null where every rank is one leaf
};

}  // namespace

void ExecuteAllreduce(const AllreduceTensors& tensors, const ReductionSpec& spec,
                      const Segments& segments, RequestContext& context) {
  Execution(tensors, spec, segments, context).Run();
}

}  // namespace adasum
