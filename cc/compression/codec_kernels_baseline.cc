#define ADASUM_CODEC_KERNELS BaselineCodecKernels
#include "cc/compression/codec_kernels.inc"
