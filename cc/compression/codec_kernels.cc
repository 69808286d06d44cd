#include "cc/compression/codec_kernels.h"

namespace adasum {

const CodecKernels& CodecKernelsOf(InstructionSet set) {
  switch (set) {
#if defined(__x86_64__)
    case InstructionSet::kAvx512:
      return Avx512CodecKernels();
    case InstructionSet::kAvx2:
      return Avx2CodecKernels();
#endif
    default:
      return BaselineCodecKernels();
  }
}

}  // namespace adasum
