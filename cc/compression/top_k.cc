// The ceil(fraction n) values of largest magnitude with their places, all others 0; of equal ones
// those that come first. NaN counts as larger than all. One pass over all of them finds, with the
// largest of each block, where the candidates are: those above what a sample says is too low.
//
// Source: Aji and Heafield, EMNLP 2017.

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "cc/compression/pairs_codec.h"

namespace adasum {
namespace {

template <typename T>
class TopK : public PairsCodec<T> {
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
    int64_t num_equal = 0, sent = 0;
    const Key least = KthLargest(summed, count, &num_equal);
    Pairs pairs(code, count);
    summed.ForEachFrom(least, 0, n, [&](int64_t i) {
      if (KeyOf(summed.x[i]) == least && num_equal-- <= 0) return;
      pairs.Set(sent++, static_cast<uint32_t>(i), summed.x[i]);
    });
    if (residual != nullptr) this->Forget(pairs, count, summed, residual);
  }

 private:
  // The count-th largest key, and how many of those that equal it are among the `count`.
  Key KthLargest(const Summed& summed, int64_t count, int64_t* num_equal) const {
    std::vector<Key> keys = KeysFrom(LowerBound(summed), summed);
    const auto num_keys = [&] { return static_cast<int64_t>(keys.size()); };
    if (num_keys() < count) keys = KeysFrom(1, summed);
    if (num_keys() < count) {  // the rest are zeros
      *num_equal = count - num_keys();
      return 0;
    }
    const auto last = keys.begin() + (count - 1);
    std::nth_element(keys.begin(), last, keys.end(), std::greater<>());
    // In front of the last are those that are no smaller.
    *num_equal = std::count(keys.begin(), last + 1, *last);
    return *last;
  }

  // Most likely below the count-th largest key: what a sample has there, and so many more as it
  // may err by.
  Key LowerBound(const Summed& summed) const {
    const int64_t m = this->NumSampled(summed.n), expected = this->NumPairs(m);
    const auto error = static_cast<int64_t>(5 * std::sqrt(static_cast<double>(expected))) + 5;
    return std::max(this->SampledKey(summed, std::min(m, expected + error)), Key{1});
  }

  static std::vector<Key> KeysFrom(Key least, const Summed& summed) {
    std::vector<Key> keys;
    summed.ForEachFrom(least, 0, summed.n, [&](int64_t i) { keys.push_back(KeyOf(summed.x[i])); });
    return keys;
  }
};

const RegisterCodec kRegistered("top_k", "top_k:FRACTION with 0 < FRACTION <= 1",
                                &MakeWithFraction<TopK>);

}  // namespace
}  // namespace adasum
