// The ceil(fraction n) values of largest magnitude with their places, all others 0; of equal ones
// those that come first. NaN counts as larger than all.
//
// Source: Aji and Heafield, EMNLP 2017.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "cc/compression/typed_codec.h"
#include "cc/core/error.h"

namespace adasum {
namespace {

// Bits in the order of the magnitudes, NaN behind the infinities.
inline uint32_t KeyOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits & 0x7FFFFFFFu;
}
inline uint64_t KeyOf(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits & 0x7FFFFFFFFFFFFFFFu;
}

// The k-th largest of n keys, and how many of those that equal it are among the k. Digit by digit
// from the highest: each pass counts the keys that begin as the result does.
template <typename T>
auto KthLargest(const T* x, int64_t n, int64_t k, int64_t* num_equal) {
  using Key = decltype(KeyOf(T()));
  constexpr int kDigitBits = 16, kKeyBits = 8 * sizeof(Key);
  std::vector<int64_t> counts(size_t{1} << kDigitBits);
  Key begin = 0;
  for (int shift = kKeyBits - kDigitBits; shift >= 0; shift -= kDigitBits) {
    std::fill(counts.begin(), counts.end(), 0);
    // Shifted twice: by the whole width it would be undefined.
    const Key wanted = begin >> shift >> (kDigitBits - 1) >> 1;
    for (int64_t i = 0; i < n; ++i) {
      const Key key = KeyOf(x[i]);
      if (key >> shift >> (kDigitBits - 1) >> 1 != wanted) continue;
      ++counts[key >> shift & ((Key{1} << kDigitBits) - 1)];
    }
    size_t digit = counts.size() - 1;
    while (counts[digit] < k) k -= counts[digit--];
    begin |= static_cast<Key>(digit) << shift;
  }
  *num_equal = k;
  return begin;
}

template <typename T>
class TopK : public TypedCodec<T> {
 public:
  TopK(double fraction, const CodecKernels& kernels)
      : TypedCodec<T>(kernels), fraction_(fraction) {}

  int64_t EncodedBytes(int64_t n) const override {
    if (n > std::numeric_limits<uint32_t>::max()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "Expected parts of less than 2^32 values for top_k. Received: " +
                      std::to_string(n) + ". Split the tensor, or use more ranks.");
    }
    return NumSent(n) * static_cast<int64_t>(sizeof(uint32_t) + sizeof(T));
  }

 protected:
  void EncodeValues(const T* values, T* residual, int64_t n, char* code) const override {
    if (n == 0) return;
    for (int64_t i = 0; residual != nullptr && i < n; ++i) residual[i] += values[i];
    const T* const x = residual == nullptr ? values : residual;
    const int64_t num_sent = NumSent(n);
    char* const sent_values = code + num_sent * sizeof(uint32_t);
    int64_t num_equal = 0, sent = 0;
    const auto least = KthLargest(x, n, num_sent, &num_equal);
    for (int64_t i = 0; i < n; ++i) {
      const auto key = KeyOf(x[i]);
      if (key < least || (key == least && num_equal-- <= 0)) continue;
      const uint32_t place = static_cast<uint32_t>(i);
      std::memcpy(code + sent * sizeof(place), &place, sizeof(place));
      std::memcpy(sent_values + sent * sizeof(T), &x[i], sizeof(T));
      ++sent;
    }
    if (residual != nullptr) Forget(code, num_sent, n, residual);
  }

  void DecodeValues(const char* code, int64_t n, T* values) const override {
    const int64_t num_sent = NumSent(n);
    const char* const sent_values = code + num_sent * sizeof(uint32_t);
    std::fill_n(values, n, T{0});
    for (int64_t i = 0; i < num_sent; ++i) {
      uint32_t place;
      std::memcpy(&place, code + i * sizeof(place), sizeof(place));
      // From a peer, that may have sent anything.
      if (place < n) std::memcpy(&values[place], sent_values + i * sizeof(T), sizeof(T));
    }
  }

 private:
  int64_t NumSent(int64_t n) const {
    const auto wanted = static_cast<int64_t>(std::ceil(fraction_ * static_cast<double>(n)));
    return std::min(n, wanted);
  }

  // What was sent is not lost; what is no number must not stay.
  static void Forget(const char* code, int64_t num_sent, int64_t n, T* residual) {
    for (int64_t i = 0; i < num_sent; ++i) {
      uint32_t place;
      std::memcpy(&place, code + i * sizeof(place), sizeof(place));
      residual[place] = 0;
    }
    for (int64_t i = 0; i < n; ++i) {
      if (!std::isfinite(residual[i])) residual[i] = 0;
    }
  }

  const double fraction_;
};

std::unique_ptr<Codec> Make(const std::string& argument, DType dtype, const CodecKernels& kernels) {
  char* end = nullptr;
  const double fraction = std::strtod(argument.c_str(), &end);
  if (argument.empty() || *end != '\0' || !(fraction > 0 && fraction <= 1)) return nullptr;
  if (dtype == DType::kFloat32) return std::make_unique<TopK<float>>(fraction, kernels);
  return std::make_unique<TopK<double>>(fraction, kernels);
}

const RegisterCodec kRegistered("top_k", "top_k:FRACTION with 0 < FRACTION <= 1", &Make);

}  // namespace
}  // namespace adasum
