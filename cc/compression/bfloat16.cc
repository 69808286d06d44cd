// 16 bits a value (bfloat16), rounded to nearest even: 8 bits of precision, and the range of
// float32.

#include "cc/compression/typed_codec.h"

namespace adasum {
namespace {

template <typename T>
class BFloat16 : public TypedCodec<T> {
 public:
  using TypedCodec<T>::TypedCodec;

  int64_t EncodedBytes(int64_t n) const override { return 2 * n; }

 protected:
  void EncodeValues(const T* values, T* residual, int64_t n, char* code) const override {
    this->loops().to_bfloat16(values, residual, n, code);
  }
  void DecodeValues(const char* code, int64_t n, T* values) const override {
    this->loops().from_bfloat16(code, n, values);
  }
};

const RegisterCodec kRegistered("bfloat16", "bfloat16", &MakeWithoutArgument<BFloat16>);

}  // namespace
}  // namespace adasum
