// One bit a value, and one scale for all n of them:
//
//   q = s sign(x), s = |x| / sqrt(n); the sign of zero is +
//
// so that |q| = |x|. A scale that is no finite number says that x, a value and its residual, was
// none: all of q is NaN then, and the residual stays.
//
// Source: 1-bit Adam (Tang et al., ICML 2021), section 3.

#include <cmath>
#include <cstring>

#include "cc/compression/typed_codec.h"

namespace adasum {
namespace {

template <typename T>
class Sign : public TypedCodec<T> {
 public:
  using TypedCodec<T>::TypedCodec;

  int64_t EncodedBytes(int64_t n) const override { return n == 0 ? 0 : kScaleBytes + (n + 7) / 8; }

 protected:
  void EncodeValues(const T* values, T* residual, int64_t n, char* code) const override {
    if (n == 0) return;
    T scale = ScaleOf(values, residual, n);
    if (!std::isfinite(scale)) {
      scale = NAN;
      residual = nullptr;
    }
    std::memcpy(code, &scale, sizeof(scale));
    this->loops().to_signs(values, residual, n, scale,
                           reinterpret_cast<uint8_t*>(code + kScaleBytes));
  }
  void DecodeValues(const char* code, int64_t n, T* values) const override {
    if (n == 0) return;
    T scale;
    std::memcpy(&scale, code, sizeof(scale));
    this->loops().from_signs(reinterpret_cast<const uint8_t*>(code + kScaleBytes), n, scale,
                             values);
  }

 private:
  static constexpr int64_t kScaleBytes = sizeof(T);

  T ScaleOf(const T* values, const T* residual, int64_t n) const {
    const double squares = this->loops().sum_squares(values, residual, n);
    if (std::isnormal(squares)) {
      return static_cast<T>(std::sqrt(squares / static_cast<double>(n)));
    }
    // Zeros, no numbers, or float64 whose squares leave the range: those of x / max |x| don't.
    const T largest = this->loops().largest(values, residual, n);
    if (largest == 0 || !std::isfinite(largest)) return largest;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const T x = residual == nullptr ? values[i] : values[i] + residual[i];
      sum += static_cast<double>(x / largest) * static_cast<double>(x / largest);
    }
    return static_cast<T>(largest * std::sqrt(sum / static_cast<double>(n)));
  }
};

const RegisterCodec kRegistered("sign", "sign", &MakeWithoutArgument<Sign>);

}  // namespace
}  // namespace adasum
