// The values whose magnitude is at least a threshold, with their places, all others 0: at most
// ceil(fraction n) of them, so that the size is known before.
//
// The threshold is the (fraction m)-th largest magnitude of m = 4,096 values at even distances.
// What finds no place in the code waits in the residual; so that it is not always the tensor's end,
// the search begins at a place that the threshold's high bits draw. NaN counts as larger than all,
// and takes the place of another where there is none left.
//
// Source: Dynamic Communication Thresholding (Gupta et al., KDD 2021), section 3, there with a
// threshold that stays for thousands of steps.

#include <algorithm>
#include <cmath>

#include "cc/compression/pairs_codec.h"

namespace adasum {
namespace {

template <typename T>
class Threshold : public PairsCodec<T> {
 public:
  using PairsCodec<T>::PairsCodec;

 protected:
  using typename PairsCodec<T>::Key;
  using typename PairsCodec<T>::Pairs;
  using typename PairsCodec<T>::Summed;

  void EncodeValues(const T* values, T* residual, int64_t n, char* code) const override {
    if (n == 0) return;
    const Summed summed = this->Sum(values, residual, n);
    const int64_t count = this->NumPairs(n);
    // A zero is not worth its place.
    const int64_t rank = this->NumPairs(this->NumSampled(n));
    const Key least = std::max(this->SampledKey(summed, rank), Key{1});
    const int64_t begin = Begin(least, n);
    int64_t sent = 0;
    Pairs pairs(code, count);
    const auto take = [&](int64_t i) {
      const T value = summed.x[i];
      if (sent < count) {
        pairs.Set(sent++, static_cast<uint32_t>(i), value);
      } else if (!std::isfinite(value)) {
        pairs.Set(count - 1, static_cast<uint32_t>(i), value);
      }
    };
    summed.ForEachFrom(least, begin, n, take);
    summed.ForEachFrom(least, 0, begin, take);
    for (int64_t i = sent; i < count; ++i) pairs.Set(i, this->kNoPlace, T{0});
    if (residual != nullptr) this->Forget(pairs, count, summed, residual);
  }

 private:
  // In [0, n): of the sign and the 19 bits behind, so that another last bit changes nothing.
  static int64_t Begin(Key least, int64_t n) {
    const auto high = static_cast<uint32_t>(least >> (8 * sizeof(Key) - 20));
    const uint32_t drawn = high * 0x9E3779B9u;
    return static_cast<int64_t>(static_cast<uint64_t>(drawn) * static_cast<uint64_t>(n) >> 32);
  }
};

const RegisterCodec kRegistered("threshold", "threshold:FRACTION with 0 < FRACTION <= 1",
                                &MakeWithFraction<Threshold>);

}  // namespace
}  // namespace adasum
