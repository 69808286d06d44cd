// The kernels that this CPU can run, each of them, not only the widest.
#ifndef ADASUM_TESTS_CC_INSTRUCTION_SETS_H_
#define ADASUM_TESTS_CC_INSTRUCTION_SETS_H_

#include <cstdio>
#include <vector>

#include "cc/arithmetic/cpu_kernels.h"
#include "tests/cc/check.h"

namespace adasum {
namespace test {

inline std::vector<const CpuKernels*> RunnableKernels() {
  std::vector<const CpuKernels*> runnable = {&BaselineKernels()};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    runnable.push_back(&Avx2Kernels());
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      runnable.push_back(&Avx512Kernels());
    }
  }
#endif
  return runnable;
}

// Calls check(kernels) for each, and says which these are.
template <typename Check>
void ForEachKernels(Check check) {
  for (const CpuKernels* kernels : RunnableKernels()) {
    std::fprintf(stderr, "  with %s\n", kernels->instruction_set);
    Scope scope(kernels->instruction_set);
    check(*kernels);
  }
}

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_INSTRUCTION_SETS_H_
