#if defined(__x86_64__)
#define ADASUM_KERNELS Avx2Kernels
#define ADASUM_INSTRUCTION_SET "avx2"
#include "cc/arithmetic/cpu_kernels.inc"
#endif  // defined(__x86_64__)
