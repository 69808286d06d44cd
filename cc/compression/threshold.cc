// The values whose magnitude is at least a threshold, with their places, all others 0: at most
// ceil(fraction n) of them, so that the size is known before.
//
// The threshold is the (fraction m)-th largest magnitude of m = 4,096 values at even distances: one
// pass compares, where top_k.cc passes three times. What finds no place in the code waits in the
// residual; so that it is not always the tensor's end, the pass begins at a place that the
// threshold's high bits draw. NaN counts as larger than all, and takes the place of another where
// there is none left.
//
// Source: Dynamic Communication Thresholding (Gupta et al., KDD 2021), section 3, there with a
// threshold that stays for thousands of steps.

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "cc/compression/pairs_codec.h"

namespace adasum {
namespace {

constexpr int64_t kMostSampled = 4096;
// Few values are sent: so many at once are passed over together.
constexpr int64_t kBlock = 64;

template <typename T>
class Threshold : public PairsCodec<T> {
 public:
  using PairsCodec<T>::PairsCodec;

 protected:
  using typename PairsCodec<T>::Key;
  using typename PairsCodec<T>::Pairs;

  void EncodeValues(const T* values, T* residual, int64_t n, char* code) const override {
    if (n == 0) return;
    for (int64_t i = 0; residual != nullptr && i < n; ++i) residual[i] += values[i];
    const T* const x = residual == nullptr ? values : residual;
    const int64_t count = this->NumPairs(n);
    Pairs pairs(code, count);
    const Key least = LeastKey(x, n);
    const int64_t begin = Begin(least, n);
    int64_t sent = 0;
    Scan(x, begin, n, least, count, &sent, &pairs);
    Scan(x, 0, begin, least, count, &sent, &pairs);
    for (int64_t i = sent; i < count; ++i) pairs.Set(i, this->kNoPlace, T{0});
    if (residual != nullptr) this->Forget(pairs, count, n, residual);
  }

 private:
  Key LeastKey(const T* x, int64_t n) const {
    std::vector<Key> sample(std::min(n, kMostSampled));
    const int64_t m = static_cast<int64_t>(sample.size());
    for (int64_t i = 0; i < m; ++i) {
      // i n / m in 64 bits, whatever n is.
      sample[i] = KeyOf(x[n / m * i + n % m * i / m]);
    }
    const auto wanted = sample.begin() + (this->NumPairs(m) - 1);
    std::nth_element(sample.begin(), wanted, sample.end(), std::greater<Key>());
    // A zero is not worth its place.
    return std::max(*wanted, Key{1});
  }

  // In [0, n): of the sign and the 19 bits behind, so that another last bit changes nothing.
  static int64_t Begin(Key least, int64_t n) {
    const auto high = static_cast<uint32_t>(least >> (8 * sizeof(Key) - 20));
    const uint32_t drawn = high * 0x9E3779B9u;
    return static_cast<int64_t>(static_cast<uint64_t>(drawn) * static_cast<uint64_t>(n) >> 32);
  }

  // Pairs of the values in [begin, end) whose key is at least `least`, while there are places.
  static void Scan(const T* x, int64_t begin, int64_t end, Key least, int64_t count, int64_t* sent,
                   Pairs* pairs) {
    for (int64_t block = begin; block < end; block += kBlock) {
      const int64_t stop = std::min(block + kBlock, end);
      Key largest = 0;
      for (int64_t i = block; i < stop; ++i) largest = std::max(largest, KeyOf(x[i]));
      if (largest < least) continue;
      for (int64_t i = block; i < stop; ++i) {
        if (KeyOf(x[i]) < least) continue;
        const auto place = static_cast<uint32_t>(i);
        if (*sent < count) {
          pairs->Set((*sent)++, place, x[i]);
        } else if (!std::isfinite(x[i])) {
          pairs->Set(count - 1, place, x[i]);
        }
      }
    }
  }
};

const RegisterCodec kRegistered("threshold", "threshold:FRACTION with 0 < FRACTION <= 1",
                                &MakeWithFraction<Threshold>);

}  // namespace
}  // namespace adasum
