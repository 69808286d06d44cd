// 16 bits a value (float16), rounded to nearest even: 11 bits of precision, up to 65504: what is
// larger becomes an infinity.

#include "cc/compression/typed_codec.h"

namespace adasum {
namespace {

template <typename T>
class Float16 : public TypedCodec<T> {
 public:
  using TypedCodec<T>::TypedCodec;

  int64_t EncodedBytes(int64_t n) const override { return 2 * n; }

 protected:
  void EncodeValues(const T* values, T* residual, int64_t n, char* code) const override {
    this->loops().to_float16(values, residual, n, code);
  }
  void DecodeValues(const char* code, int64_t n, T* values) const override {
    this->loops().from_float16(code, n, values);
  }
};

const RegisterCodec kRegistered("float16", "float16", &MakeWithoutArgument<Float16>);

}  // namespace
}  // namespace adasum
