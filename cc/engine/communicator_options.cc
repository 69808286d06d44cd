#include "cc/engine/communicator_options.h"

#include <cstdlib>
#include <limits>

#include "cc/arena/heap_size.h"
#include "cc/core/error.h"
#include "cc/core/numbers.h"
#include "cc/core/transport.h"

namespace adasum {
namespace {

// Of a variable; empty if it is not set.
std::string Value(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

// `setting` is an environment variable, or an option of a split.
[[noreturn]] void Refuse(const std::string& setting, const std::string& expected,
                         const std::string& received) {
  const bool is_variable = setting.rfind("TF_ADASUM_", 0) == 0;
  const char* const advice =
      is_variable ? "Set it to that, or unset it." : "Pass that, or nothing.";
  throw Error(ErrorCode::kInvalidArgument, "Expected " + setting + " to be " + expected +
                                               ". Received: " + received + ". " + advice);
}

void ReadText(const char* variable, std::string* text) {
  const std::string value = Value(variable);
  if (!value.empty()) *text = value;
}

// Of a switch; anything but 0 and 1 is refused, since "no" and "off" would mean yes.
bool ParseSwitch(const char* setting, const std::string& value) {
  if (value != "0" && value != "1") Refuse(setting, "0 or 1", value);
  return value == "1";
}

void ReadSwitch(const char* variable, bool* is_on) {
  const std::string value = Value(variable);
  if (!value.empty()) *is_on = ParseSwitch(variable, value);
}

void ReadSeconds(const char* variable, double* seconds) {
  const std::string text = Value(variable);
  if (text.empty()) return;
  // Every wait has a limit; 31 years, and clocks can count it.
  constexpr double kMost = 1e9;
  double value = 0;
  if (!ParseNumber(text, &value) || !(value > 0 && value <= kMost)) {
    Refuse(variable, "a positive number of seconds, at most 1e9", text);
  }
  *seconds = value;
}

void ReadCores(const char* variable, int* cores) {
  const std::string text = Value(variable);
  if (text.empty()) return;
  char* end = nullptr;
  const int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (*end != '\0' || value < 1 || value > std::numeric_limits<int>::max()) {
    Refuse(variable, "a positive number", text);
  }
  *cores = static_cast<int>(value);
}

void ReadInstructionSet(const char* variable, InstructionSet* set) {
  const std::string name = Value(variable);
  if (name.empty()) return;
  if (!ParseInstructionSet(name, set)) Refuse(variable, "baseline, avx2 or avx512", name);
}

// In the user's cache folder; empty where there is none.
std::string DefaultTuningPath() {
  const std::string cache = Value("XDG_CACHE_HOME"), home = Value("HOME");
  if (!cache.empty() && cache[0] == '/') return cache + "/tf_adasum/tuning";
  if (!home.empty() && home[0] == '/') return home + "/.cache/tf_adasum/tuning";
  return "";
}

// Of a switch that may also name a file.
void ReadTuning(const char* variable, TuningSettings* tuning) {
  const std::string value = Value(variable);
  tuning->is_on = value != "0";
  if (value.empty() || value == "1") {
    tuning->path = DefaultTuningPath();
  } else if (value[0] == '/') {
    tuning->path = value;
  } else if (value != "0") {
    Refuse(variable, "0, 1 or the whole path of a file", value);
  }
}

// Rounded up to whole cache lines, so that the operands of a chunk are aligned as the tensors are.
void ReadChunkBytes(const char* variable, int64_t* num_bytes) {
  constexpr int64_t kLine = 256;
  const std::string text = Value(variable);
  if (text.empty()) return;
  char* end = nullptr;
  const int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (*end != '\0' || value <= 0 || value > kMessageBytes) {
    Refuse(variable, "a number of bytes from 1 to " + std::to_string(kMessageBytes), text);
  }
  *num_bytes = (value + kLine - 1) / kLine * kLine;
}

// The arena reads it before there is a communicator, and where nobody can be told.
void CheckHeapBytes(const char* variable) {
  const std::string text = Value(variable);
  int64_t num_bytes = 0;
  if (!text.empty() && !ParseHeapBytes(text.c_str(), &num_bytes)) {
    Refuse(variable, kHeapBytesWanted, text);
  }
}

void Set(const std::string& name, const std::string& value, CommunicatorOptions* options) {
  if (name == "timeline") {
    options->timeline = value;
  } else if (name == "shared_memory") {
    options->shared_memory = ParseSwitch("the option shared_memory", value);
  } else if (name == "zero_copy") {
    options->zero_copy = ParseSwitch("the option zero_copy", value);
  } else if (name == "cross_memory") {
    options->cross_memory = ParseSwitch("the option cross_memory", value);
  } else {
    Refuse("an option", "shared_memory, zero_copy, cross_memory or timeline", name);
  }
}

}  // namespace

CommunicatorOptions CommunicatorOptions::FromEnvironment(const GivenOptions& given) {
  CommunicatorOptions options;
  ReadSeconds("TF_ADASUM_TIMEOUT_SECONDS", &options.timeouts.silence_seconds);
  ReadSeconds("TF_ADASUM_MISMATCH_SECONDS", &options.timeouts.mismatch_seconds);
  ReadText("TF_ADASUM_HOST", &options.host);
  ReadCores("TF_ADASUM_CORES", &options.cores);
  ReadInstructionSet("TF_ADASUM_INSTRUCTION_SET", &options.instruction_set);
  ReadSwitch("TF_ADASUM_SHARED_MEMORY", &options.shared_memory);
  ReadSwitch("TF_ADASUM_CROSS_MEMORY", &options.cross_memory);
  CheckHeapBytes("TF_ADASUM_ARENA");
  ReadSwitch("TF_ADASUM_CUDA_IPC", &options.cuda.ipc);
  ReadSwitch("TF_ADASUM_CUDA_MPI", &options.cuda.mpi);
  ReadChunkBytes("TF_ADASUM_CUDA_STEP_BYTES", &options.cuda.chunk_bytes);
  ReadTuning("TF_ADASUM_TUNE", &options.tuning);
  ReadSwitch("TF_ADASUM_VERBOSE", &options.tuning.is_verbose);
  ReadText("TF_ADASUM_TIMELINE", &options.timeline);
  for (const auto& [name, value] : given) Set(name, value, &options);
  return options;
}

}  // namespace adasum
