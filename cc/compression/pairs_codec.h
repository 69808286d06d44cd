// What top_k.cc and threshold.cc share: of n values ceil(fraction n) travel, each with its place,
// and all others are 0.
#ifndef ADASUM_COMPRESSION_PAIRS_CODEC_H_
#define ADASUM_COMPRESSION_PAIRS_CODEC_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cc/compression/keys.h"
#include "cc/compression/typed_codec.h"
#include "cc/core/error.h"
#include "cc/core/numbers.h"

namespace adasum {

template <typename T>
class PairsCodec : public TypedCodec<T> {
 public:
  using Key = decltype(KeyOf(T()));

  PairsCodec(double fraction, const CodecKernels& kernels)
      : TypedCodec<T>(kernels), fraction_(fraction) {}

  int64_t EncodedBytes(int64_t n) const override {
    // One number of 32 bits says that there is no place.
    if (n >= kNoPlace) {
      throw Error::Common(
          ErrorCode::kInvalidArgument,
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

  static constexpr int64_t kMostSampled = 4096;
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

  // x = values + residual, which lies where the residual does, if there is one; and the largest key
  // of each block of kKeyBlock values, by which most of x need not be looked at again.
  struct Summed {
    const T* x;
    int64_t n;
    std::vector<Key> largest;

    // Calls take(i) for the values in [begin, end) whose key is at least `least`.
    template <typename Take>
    void ForEachFrom(Key least, int64_t begin, int64_t end, Take&& take) const {
      for (int64_t block = begin / kKeyBlock; block * kKeyBlock < end; ++block) {
        if (largest[block] < least) continue;
        const int64_t stop = std::min((block + 1) * kKeyBlock, end);
        for (int64_t i = std::max(block * kKeyBlock, begin); i < stop; ++i) {
          if (KeyOf(x[i]) >= least) take(i);
        }
      }
    }
  };

  Summed Sum(const T* values, T* residual, int64_t n) const {
    Summed summed{residual == nullptr ? values : residual, n, {}};
    summed.largest.resize((n + kKeyBlock - 1) / kKeyBlock);
    this->loops().sum_and_largest(values, residual, n, summed.largest.data());
    return summed;
  }

  // The `rank`-th largest key of `kMostSampled` values at even distances, counted from 1; of all
  // values where there are no more.
  static Key SampledKey(const Summed& summed, int64_t rank) {
    const int64_t n = summed.n, m = NumSampled(n);
    std::vector<Key> sample(m);
    for (int64_t i = 0; i < m; ++i) {
      // i n / m in 64 bits, whatever n is.
      sample[i] = KeyOf(summed.x[n / m * i + n % m * i / m]);
    }
    std::nth_element(sample.begin(), sample.begin() + (rank - 1), sample.end(), std::greater<>());
    return sample[rank - 1];
  }
  static int64_t NumSampled(int64_t n) { return std::min(n, kMostSampled); }

  // What was sent is not lost; what is no number must not stay.
  static void Forget(const Pairs& pairs, int64_t count, const Summed& summed, T* residual) {
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t place = pairs.Place(i);
      if (place < summed.n) residual[place] = 0;
    }
    const Key infinity = KeyOf(std::numeric_limits<T>::infinity());
    summed.ForEachFrom(infinity, 0, summed.n, [&](int64_t i) { residual[i] = 0; });
  }

 private:
  const double fraction_;
};

// C<float> or C<double>, as CodecMaker makes a codec whose argument is a fraction.
template <template <typename> class C>
std::unique_ptr<Codec> MakeWithFraction(const std::string& argument, DType dtype,
                                        const CodecKernels& kernels) {
  double fraction = 0;
  if (!ParseNumber(argument, &fraction) || !(fraction > 0 && fraction <= 1)) return nullptr;
  if (dtype == DType::kFloat32) return std::make_unique<C<float>>(fraction, kernels);
  return std::make_unique<C<double>>(fraction, kernels);
}

}  // namespace adasum

#endif  // ADASUM_COMPRESSION_PAIRS_CODEC_H_
