#if defined(__x86_64__)
#define ADASUM_CODEC_KERNELS Avx512CodecKernels
#include "cc/compression/codec_kernels.inc"
#endif  // defined(__x86_64__)
