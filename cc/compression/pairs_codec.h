// What top_k.cc and threshold.cc share: of n values ceil(fraction n) travel, each with its place,
// and all others are 0.
#ifndef ADASUM_COMPRESSION_PAIRS_CODEC_H_
#define ADASUM_COMPRESSION_PAIRS_CODEC_H_

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "cc/compression/typed_codec.h"
#include "cc/core/error.h"

namespace adasum {

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

template <typename T>
class PairsCodec : public TypedCodec<T> {
 public:
  using Key = decltype(KeyOf(T()));

  PairsCodec(double fraction, const CodecKernels& kernels)
      : TypedCodec<T>(kernels), fraction_(fraction) {}

  int64_t EncodedBytes(int64_t n) const override {
    // One number of 32 bits says that there is no place.
    if (n >= kNoPlace) {
      throw Error(ErrorCode::kInvalidArgument,
                  "Expected parts of less than 2^32 - 1 values where places travel. Received: " +
                      std::to_string(n) + ". Split the tensor, or use more ranks.");
    }
    return NumPairs(n) * static_cast<int64_t>(sizeof(uint32_t) + sizeof(T));
  }

 protected:
  // The places of all pairs, and then their values: so both are aligned where the code is.
  class Pairs {
   public:
    Pairs(char* code, int64_t count) : places_(code), values_(code + count * sizeof(uint32_t)) {}

    void Set(int64_t pair, uint32_t place, T value) {
      std::memcpy(places_ + pair * sizeof(place), &place, sizeof(place));
      std::memcpy(values_ + pair * sizeof(value), &value, sizeof(value));
    }
    uint32_t Place(int64_t pair) const {
      uint32_t place;
      std::memcpy(&place, places_ + pair * sizeof(place), sizeof(place));
      return place;
    }
    T Value(int64_t pair) const {
      T value;
      std::memcpy(&value, values_ + pair * sizeof(value), sizeof(value));
      return value;
    }

   private:
    char* const places_;
    char* const values_;
  };

  static constexpr uint32_t kNoPlace = std::numeric_limits<uint32_t>::max();

  int64_t NumPairs(int64_t n) const {
    const auto wanted = static_cast<int64_t>(std::ceil(fraction_ * static_cast<double>(n)));
    return std::min(n, wanted);
  }

  void DecodeValues(const char* code, int64_t n, T* values) const final {
    const int64_t count = NumPairs(n);
    const Pairs pairs(const_cast<char*>(code), count);
    std::fill_n(values, n, T{0});
    for (int64_t i = 0; i < count; ++i) {
      // From a peer, that may have sent anything.
      const uint32_t place = pairs.Place(i);
      if (place < n) values[place] = pairs.Value(i);
    }
  }

  // What was sent is not lost; what is no number must not stay.
  static void Forget(const Pairs& pairs, int64_t count, int64_t n, T* residual) {
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t place = pairs.Place(i);
      if (place < n) residual[place] = 0;
    }
    for (int64_t i = 0; i < n; ++i) {
      if (!std::isfinite(residual[i])) residual[i] = 0;
    }
  }

 private:
  const double fraction_;
};

// C<float> or C<double>, as CodecMaker makes a codec whose argument is a fraction.
template <template <typename> class C>
std::unique_ptr<Codec> MakeWithFraction(const std::string& argument, DType dtype,
                                        const CodecKernels& kernels) {
  char* end = nullptr;
  const double fraction = std::strtod(argument.c_str(), &end);
  if (argument.empty() || *end != '\0' || !(fraction > 0 && fraction <= 1)) return nullptr;
  if (dtype == DType::kFloat32) return std::make_unique<C<float>>(fraction, kernels);
  return std::make_unique<C<double>>(fraction, kernels);
}

}  // namespace adasum

#endif  // ADASUM_COMPRESSION_PAIRS_CODEC_H_
