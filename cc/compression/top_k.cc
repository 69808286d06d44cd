// The ceil(fraction n) values of largest magnitude with their places, all others 0; of equal ones
// those that come first. NaN counts as larger than all.
//
// Source: Aji and Heafield, EMNLP 2017.

#include <algorithm>
#include <functional>
#include <vector>

#include "cc/compression/pairs_codec.h"

namespace adasum {
namespace {

constexpr int kDigitBits = 16;

// The k-th largest of few keys, and how many of those that equal it are among the k: by a copy.
template <typename T>
auto KthLargestOfFew(const T* x, int64_t n, int64_t k, int64_t* num_equal) {
  std::vector<decltype(KeyOf(T()))> keys(n);
  std::transform(x, x + n, keys.begin(), [](T value) { return KeyOf(value); });
  std::nth_element(keys.begin(), keys.begin() + (k - 1), keys.end(), std::greater<>());
  // In front of the k-th are k - 1 that are no smaller.
  *num_equal = std::count(keys.begin(), keys.begin() + k, keys[k - 1]);
  return keys[k - 1];
}

// The same of many: digit by digit from the highest, where each pass counts the keys that begin as
// the result does.
template <typename T>
auto KthLargest(const T* x, int64_t n, int64_t k, int64_t* num_equal) {
  using Key = decltype(KeyOf(T()));
  constexpr int kKeyBits = 8 * sizeof(Key);
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
class TopK : public PairsCodec<T> {
 public:
  using PairsCodec<T>::PairsCodec;

 protected:
  void EncodeValues(const T* values, T* residual, int64_t n, char* code) const override {
    if (n == 0) return;
    for (int64_t i = 0; residual != nullptr && i < n; ++i) residual[i] += values[i];
    const T* const x = residual == nullptr ? values : residual;
    const int64_t count = this->NumPairs(n);
    typename PairsCodec<T>::Pairs pairs(code, count);
    int64_t num_equal = 0, sent = 0;
    // Below, the counts of the digits alone would take longer.
    const bool are_few = n < int64_t{1} << kDigitBits;
    const auto least =
        are_few ? KthLargestOfFew(x, n, count, &num_equal) : KthLargest(x, n, count, &num_equal);
    for (int64_t i = 0; i < n; ++i) {
      const auto key = KeyOf(x[i]);
      if (key < least || (key == least && num_equal-- <= 0)) continue;
      pairs.Set(sent++, static_cast<uint32_t>(i), x[i]);
    }
    if (residual != nullptr) this->Forget(pairs, count, n, residual);
  }
};

const RegisterCodec kRegistered("top_k", "top_k:FRACTION with 0 < FRACTION <= 1",
                                &MakeWithFraction<TopK>);

}  // namespace
}  // namespace adasum
