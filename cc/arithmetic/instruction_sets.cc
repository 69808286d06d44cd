#include "cc/arithmetic/instruction_sets.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "cc/core/error.h"

namespace adasum {
namespace {

InstructionSet WidestSupported() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    const bool has_avx512 =
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return has_avx512 ? InstructionSet::kAvx512 : InstructionSet::kAvx2;
  }
#endif
  return InstructionSet::kBaseline;
}

InstructionSet WidestWanted() {
  const char* text = std::getenv("TF_ADASUM_INSTRUCTION_SET");
  if (text == nullptr) return InstructionSet::kAvx512;
  const std::string name = text;
  if (name == "baseline") return InstructionSet::kBaseline;
  if (name == "avx2") return InstructionSet::kAvx2;
  if (name == "avx512") return InstructionSet::kAvx512;
  throw Error(
      ErrorCode::kInvalidArgument,
      "Expected TF_ADASUM_INSTRUCTION_SET to be baseline, avx2 or avx512. Received: " + name);
}

}  // namespace

InstructionSet WidestInstructionSet() { return std::min(WidestWanted(), WidestSupported()); }

const CpuKernels& KernelsOf(InstructionSet set) {
  switch (set) {
#if defined(__x86_64__)
    case InstructionSet::kAvx512:
      return Avx512Kernels();
    case InstructionSet::kAvx2:
      return Avx2Kernels();
#endif
    default:
      return BaselineKernels();
  }
}

}  // namespace adasum
