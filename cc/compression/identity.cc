// The values as they are: the algorithm that codecs travel by, without one. What an earlier codec
// left behind is sent, and nothing is left.

#include <cstring>

#include "cc/compression/typed_codec.h"
#include "cc/core/copy_bytes.h"

namespace adasum {
namespace {

template <typename T>
class Identity : public TypedCodec<T> {
 public:
  using TypedCodec<T>::TypedCodec;

  int64_t EncodedBytes(int64_t n) const override { return n * static_cast<int64_t>(sizeof(T)); }

 protected:
  void EncodeValues(const T* values, T* residual, int64_t n, char* code) const override {
    if (residual == nullptr) {
      CopyBytes(code, values, EncodedBytes(n));
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      const T x = values[i] + residual[i];
      std::memcpy(code + i * sizeof(T), &x, sizeof(T));
      residual[i] = 0;
    }
  }
  void DecodeValues(const char* code, int64_t n, T* values) const override {
    CopyBytes(values, code, EncodedBytes(n));
  }
};

const RegisterCodec kRegistered("identity", "identity", &MakeWithoutArgument<Identity>);

}  // namespace
}  // namespace adasum
