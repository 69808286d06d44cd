#if defined(__x86_64__)
#define ADASUM_KERNELS Avx512Kernels
#define ADASUM_INSTRUCTION_SET "avx512"
#include "cc/arithmetic/cpu_kernels.inc"
#endif  // defined(__x86_64__)
