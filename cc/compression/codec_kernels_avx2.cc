#if defined(__x86_64__)
#define ADASUM_CODEC_KERNELS Avx2CodecKernels
#include "cc/compression/codec_kernels.inc"
#endif  // defined(__x86_64__)
