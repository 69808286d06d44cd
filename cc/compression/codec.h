// A codec says how floats travel: so many values become bytes, and bytes values again. A new codec
// is one file here that registers itself.
//
// Error feedback (Seide et al., Interspeech 2014; Karimireddy et al., ICML 2019): what encoding
// loses of x = values + residual stays behind and is added to the next values,
//
//   residual' = x - Decode(Encode(x))
//
// so that nothing is lost for ever.
#ifndef ADASUM_COMPRESSION_CODEC_H_
#define ADASUM_COMPRESSION_CODEC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cc/compression/codec_kernels.h"
#include "cc/core/dtype.h"

namespace adasum {

// Of float32 or float64. Any thread may use it.
class Codec {
 public:
  virtual ~Codec() = default;

  // What n values take; nothing for none. The same on all ranks, since it is known before.
  virtual int64_t EncodedBytes(int64_t n) const = 0;

  // n values, and what was lost before, to EncodedBytes(n) bytes. `residual` becomes what is lost
  // now; null where nothing was and nothing is kept. Where the sum has a NaN or an infinity the
  // code has one, too, and nothing of it gets into the residual. `code` may lie at any address.
  virtual void Encode(const void* values, void* residual, int64_t n, void* code) const = 0;

  // The n values of a code: the same bits on all ranks that run the same instruction set.
  virtual void Decode(const void* code, int64_t n, void* values) const = 0;
};

// The codec that a text names: "sign", or with its argument behind a colon, "top_k:0.01". Throws
// InvalidArgument, with what there is, for another text. `kernels` must outlive it.
std::unique_ptr<Codec> MakeCodec(const std::string& text, DType dtype, const CodecKernels& kernels);

// All registered names, sorted.
std::vector<std::string> CodecNames();

// What a codec's file makes of its argument, empty where none was given; null for an argument that
// it can't take.
using CodecMaker = std::unique_ptr<Codec> (*)(const std::string& argument, DType dtype,
                                              const CodecKernels& kernels);

// Registers a codec when its file is loaded: static RegisterCodec r("sign", "sign", &Make). `usage`
// is how errors show it: "top_k:FRACTION, with 0 < FRACTION <= 1".
class RegisterCodec {
 public:
  RegisterCodec(const std::string& name, const std::string& usage, CodecMaker make);
};

}  // namespace adasum

#endif  // ADASUM_COMPRESSION_CODEC_H_
