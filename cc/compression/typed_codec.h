// What the files of the codecs have in common.
#ifndef ADASUM_COMPRESSION_TYPED_CODEC_H_
#define ADASUM_COMPRESSION_TYPED_CODEC_H_

#include <memory>
#include <string>

#include "cc/compression/codec.h"

namespace adasum {

// A codec of one dtype: T is float or double.
template <typename T>
class TypedCodec : public Codec {
 public:
  explicit TypedCodec(const CodecKernels& kernels)
      : loops_(kernels.Of(static_cast<const T*>(nullptr))) {}

  void Encode(const void* values, void* residual, int64_t n, void* code) const final {
    EncodeValues(static_cast<const T*>(values), static_cast<T*>(residual), n,
                 static_cast<char*>(code));
  }
  void Decode(const void* code, int64_t n, void* values) const final {
    DecodeValues(static_cast<const char*>(code), n, static_cast<T*>(values));
  }

 protected:
  virtual void EncodeValues(const T* values, T* residual, int64_t n, char* code) const = 0;
  virtual void DecodeValues(const char* code, int64_t n, T* values) const = 0;
  const CodecLoops<T>& loops() const { return loops_; }

 private:
  const CodecLoops<T>& loops_;
};

// C<float> or C<double>, as CodecMaker makes a codec that takes no argument.
template <template <typename> class C>
std::unique_ptr<Codec> MakeWithoutArgument(const std::string& argument, DType dtype,
                                           const CodecKernels& kernels) {
  if (!argument.empty()) return nullptr;
  if (dtype == DType::kFloat32) return std::make_unique<C<float>>(kernels);
  return std::make_unique<C<double>>(kernels);
}

}  // namespace adasum

#endif  // ADASUM_COMPRESSION_TYPED_CODEC_H_
