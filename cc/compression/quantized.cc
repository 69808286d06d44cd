// b bits a value, b = 2, 4 or 8, and one scale for all n of them:
//
//   q = s / L (floor(x L / s + u + L) - L), s = max |x|, L = 2^(b-1) - 1 levels above zero
//
// where u in [0, 1) rounds at random: up as often as makes q right on average. u comes of the high
// bits of x and its place, by the mixing function of MurmurHash3: what is encoded twice gives the
// same code, and a training that goes on needs no state of a generator. The low bits stay out, so
// that a sum whose last bit is another one gives no other code everywhere. s ends a little below
// the dtype's largest number, as s / L L may round above s. A scale that is no finite number says
// that x, a value and its residual, was none: all of q is NaN then, and the residual stays.
//
// Source: QSGD (Alistarh et al., NeurIPS 2017), section 3, there with the norm as scale.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cc/compression/typed_codec.h"

namespace adasum {
namespace {

template <typename T>
class Quantized : public TypedCodec<T> {
 public:
  Quantized(int bits, const CodecKernels& kernels) : TypedCodec<T>(kernels), bits_(bits) {}

  int64_t EncodedBytes(int64_t n) const override {
    return n == 0 ? 0 : kScaleBytes + (n * bits_ + 7) / 8;
  }

 protected:
  void EncodeValues(const T* values, T* residual, int64_t n, char* code) const override {
    if (n == 0) return;
    T scale = this->loops().largest(values, residual, n);
    if (!std::isfinite(scale)) {
      residual = nullptr;
    } else {
      scale = std::min(scale, kMostScale);
    }
    std::memcpy(code, &scale, sizeof(scale));
    uint8_t* const levels = reinterpret_cast<uint8_t*>(code + kScaleBytes);
    this->loops().to_levels(values, residual, n, scale, bits_, levels);
  }

  void DecodeValues(const char* code, int64_t n, T* values) const override {
    if (n == 0) return;
    T scale;
    std::memcpy(&scale, code, sizeof(scale));
    const uint8_t* const levels = reinterpret_cast<const uint8_t*>(code + kScaleBytes);
    this->loops().from_levels(levels, n, scale, bits_, values);
  }

 private:
  static constexpr int64_t kScaleBytes = sizeof(T);
  static constexpr T kMostScale =
      std::numeric_limits<T>::max() * (1 - 4 * std::numeric_limits<T>::epsilon());

  const int bits_;
};

std::unique_ptr<Codec> Make(const std::string& argument, DType dtype, const CodecKernels& kernels) {
  const int bits = argument.size() == 1 ? argument[0] - '0' : 0;
  if (bits != 2 && bits != 4 && bits != 8) return nullptr;
  if (dtype == DType::kFloat32) return std::make_unique<Quantized<float>>(bits, kernels);
  return std::make_unique<Quantized<double>>(bits, kernels);
}

const RegisterCodec kRegistered("quantized", "quantized:BITS with BITS 2, 4 or 8", &Make);

}  // namespace
}  // namespace adasum
