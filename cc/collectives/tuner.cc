#include "cc/collectives/tuner.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cc/algorithms/reduce_leaves.h"
#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/engine/tuning_file.h"
#include "cc/reductions/reduction.h"
#include "cc/transport/dissemination.h"
#include "cc/transport/gather.h"
#include "cc/transport/subset_transport.h"

namespace adasum {
namespace {

using Clock = std::chrono::steady_clock;

// The defaults first. Not 1 MiB: it may win with the few MiB that are measured, and loses with long
// vectors that are packed (docs/performance.md).
const std::vector<Tuning>& Candidates() {
  static const auto* const candidates = new std::vector<Tuning>{
      Tuning(), {128 << 10, 8}, {512 << 10, 8}, {256 << 10, 32}, {256 << 10, 2}, {512 << 10, 2}};
  return *candidates;
}

// Fewer rounds say nothing.
constexpr double kMostSeconds = 0.045, kMostRounds = 30;
constexpr int kLeastRounds = 5;
// What noise may look like.
constexpr double kClearlyBetter = 0.9;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Allreduces of memory of its own on the ranks of one host.
class Measurement {
 public:
  Measurement(Transport& host, InstructionSet instruction_set)
      : host_(host),
        arithmetic_(KernelsOf(instruction_set), false),
        input_(kElements, 1.0f / static_cast<float>(1 + host.rank())),
        output_(kElements),
        seconds_(Candidates().size(), 1e9) {}

  // Seconds of one allreduce.
  double Time(const Tuning& tuning) {
    Barrier(host_);
    const Clock::time_point begin = Clock::now();
    ReduceLeaves({DType::kFloat32, segments_, inputs_, outputs_},
                 {FindReduction("adasum"), host_, arithmetic_, scratch_, tuning});
    return SecondsSince(begin);
  }
  // Times each candidate once.
  void Round() {
    for (size_t i = 0; i < seconds_.size(); ++i) {
      seconds_[i] = std::min(seconds_[i], Time(Candidates()[i]));
    }
  }
  // The shortest time: whatever else happens on the host only adds to it.
  const std::vector<double>& seconds() const { return seconds_; }

 private:
  // More than the caches of a core hold of all operands, as gradients are.
  static constexpr int64_t kElements = int64_t{1} << 20;

  Transport& host_;
  CpuArithmetic arithmetic_;
  std::vector<float> input_, output_;
  const Segments segments_{{kElements}};
  const std::vector<const void*> inputs_{input_.data()};
  const std::vector<void*> outputs_{output_.data()};
  LeafScratch scratch_;
  std::vector<double> seconds_;
};

// What the same measurement would find again: the processor, and how many ranks share it.
std::string HostKind(const Topology& topology) {
  std::ifstream file("/proc/cpuinfo");
  std::string model = "unknown processor";
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    model = line.substr(std::min(line.find(": ") + 2, line.size()));
    break;
  }
  return model + ", " + KernelsOf(topology.instruction_set).instruction_set + ", " +
         std::to_string(topology.local_size) +
         " ranks, cores of each: " + std::to_string(topology.cores);
}

class Tuner {
 public:
  explicit Tuner(RequestContext& context)
      : context_(context),
        all_(context.untraced),
        settings_(context.topology.tuning),
        file_(settings_.path),
        kind_(HostKind(context.topology)) {}
  // Peers may still write to what it reduced: that stays until the process ends.
  ~Tuner() {
    if (all_.HasAbandoned()) measurement_.release();
  }

  Tuning Choose() {
    const Clock::time_point begin = Clock::now();
    const std::vector<std::string> told = GatherTexts(all_, Mine());
    if (Has(told, kOff)) return Tuning();
    if (const std::optional<Tuning> known = ParseTuning(told[0])) {
      Tell(*known, "kept from an earlier measurement", begin);
      return *known;
    }
    if (Has(told, kCrowded)) return Tuning();
    const Tuning best = Measure();
    const auto milliseconds = static_cast<int64_t>(1e3 * SecondsSince(begin));
    const bool is_kept = all_.rank() == 0 && file_.Keep(kind_, best);
    Tell(best,
         "measured in " + std::to_string(milliseconds) + " ms" +
             (is_kept ? ", kept in " + settings_.path : ""),
         begin);
    return best;
  }

 private:
  static constexpr const char* kOff = "off";
  static constexpr const char* kCrowded = "crowded";

  // What this rank tells the others. Beyond kMostOperands ranks of a host another algorithm is
  // used; ranks that share a core would time how they take turns.
  std::string Mine() const {
    const int local_size = context_.topology.local_size;
    if (!settings_.is_on || local_size > kMostOperands) return kOff;
    const std::string known = file_.Find(kind_);
    const int num_cores = static_cast<int>(std::thread::hardware_concurrency());
    return known.empty() && local_size > num_cores ? kCrowded : known;
  }

  static bool Has(const std::vector<std::string>& texts, const char* text) {
    return std::find(texts.begin(), texts.end(), text) != texts.end();
  }

  Tuning Measure() {
    SubsetTransport host(&all_, HostOf(all_.rank(), context_.topology.hosts));
    if (host.size() > 1) {
      measurement_ = std::make_unique<Measurement>(host, context_.topology.instruction_set);
    }
    // The first ones find cold memory; the quickest says for how many there is time.
    double once = measurement_ ? 1e9 : 0;
    for (int i = 0; i < 5 && measurement_; ++i) once = std::min(once, measurement_->Time(Tuning()));
    const double round = SlowestOf({once})[0] * static_cast<double>(Candidates().size());
    const int num_rounds = static_cast<int>(std::min(kMostSeconds / round, kMostRounds));
    if (num_rounds < kLeastRounds) return Tuning();
    for (int i = 0; i < num_rounds && measurement_; ++i) measurement_->Round();
    const std::vector<double> seconds = SlowestOf(
        measurement_ ? measurement_->seconds() : std::vector<double>(Candidates().size()));
    const auto best = std::min_element(seconds.begin(), seconds.end());
    return *best < kClearlyBetter * seconds[0] ? Candidates()[best - seconds.begin()] : Tuning();
  }

  // Of all ranks the longest of each.
  std::vector<double> SlowestOf(std::vector<double> seconds) {
    std::vector<std::string> texts;
    for (double value : seconds) texts.push_back(std::to_string(value * 1e9));
    for (const std::vector<std::string>& theirs : GatherLists(all_, texts)) {
      for (size_t i = 0; i < std::min(theirs.size(), seconds.size()); ++i) {
        seconds[i] = std::max(seconds[i], std::strtod(theirs[i].c_str(), nullptr) / 1e9);
      }
    }
    return seconds;
  }

  void Tell(const Tuning& tuning, const std::string& how, Clock::time_point begin) {
    const std::string text = "chunks of " + std::to_string(tuning.chunk_bytes >> 10) + " KiB, " +
                             std::to_string(tuning.packed_chunks) + " kept packed (" + how + ")";
    if (context_.timeline != nullptr) context_.timeline->Add("tuning: " + text, begin, -1, 0);
    if (!settings_.is_verbose || all_.rank() != 0) return;
    const char* const elsewhere =
        AllCopyTensors(SubsetTransport(&all_, HostOf(all_.rank(), context_.topology.hosts)))
            ? "packed or copied across, whichever is quicker"
            : "packed";
    std::fprintf(stderr,
                 "tf_adasum: ranks of a host exchange %s; tensors outside of shared memory are "
                 "%s\n",
                 text.c_str(), elsewhere);
  }

  RequestContext& context_;
  Transport& all_;
  const TuningSettings& settings_;
  const TuningFile file_;
  const std::string kind_;
  std::unique_ptr<Measurement> measurement_;  // null on a host with one rank
};

}  // namespace

Tuning ChooseTuning(RequestContext& context) { return Tuner(context).Choose(); }

}  // namespace adasum
