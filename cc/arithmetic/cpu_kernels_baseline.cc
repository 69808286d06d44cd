#define ADASUM_KERNELS BaselineKernels
#define ADASUM_INSTRUCTION_SET "baseline"
#include "cc/arithmetic/cpu_kernels.inc"
