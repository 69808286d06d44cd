#include "cc/arithmetic/instruction_sets.h"

namespace adasum {
InstructionSet WidestInstructionSet() {
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

bool ParseInstructionSet(const std::string& name, InstructionSet* set) {
  const char* const names[] = {"baseline", "avx2", "avx512"};
  for (int i = 0; i < 3; ++i) {
    if (name != names[i]) continue;
    *set = static_cast<InstructionSet>(i);
    return true;
  }
  return false;
}

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
