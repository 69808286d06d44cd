// The k = ceil(fraction n) values that a count sketch shows to be the heaviest; all others are 0.
//
// A code is a seed of 64 bits, the sketch, a table of r rows and c columns, and then the k values
// in the order of their places:
//
//   table[j][h_j(i)] = sum of s_j(i) x_i,   x_i ~ median over j of s_j(i) table[j][h_j(i)]
//
// Who decodes finds the same places in the same table, so that no place travels: both compare what
// is in the table, and add at most the two in the middle of it, which all machines round alike. A
// first entry that is NaN says that some value was no number, or a sum beyond the dtype: all of q
// is NaN then, and the residual stays.
//
// The hashes are drawn from the seed, and the seed from x itself, which with error feedback is
// another one in each call: under hashes that never change, places that collisions make look heavy
// are chosen again for ever, and others wait for ever. What is encoded twice gives the same code,
// and a training that goes on needs no state of a generator. Only high bits of few values make the
// seed, so that a sum whose last bit is another one does not give another code.
//
// Source: Charikar, Chen and Farach-Colton, "Finding frequent items in data streams", 2002; exact
// values of the heavy places: Ivkin et al., arXiv:1903.04488, Algorithm 2.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "cc/compression/keys.h"
#include "cc/compression/sketch_hashes.h"
#include "cc/compression/typed_codec.h"
#include "cc/core/error.h"
#include "cc/core/numbers.h"

namespace adasum {
namespace {

constexpr int kMostRows = 101;

struct SketchSettings {
  double fraction, sketch_fraction;
  int rows;
};

template <typename T>
class Sketch : public TypedCodec<T> {
 public:
  Sketch(const SketchSettings& settings, const CodecKernels& kernels)
      : TypedCodec<T>(kernels), settings_(settings) {}

  int64_t EncodedBytes(int64_t n) const override {
    if (n >= int64_t{1} << 32) {
      throw Error::Common(ErrorCode::kInvalidArgument,
                          "Expected parts of less than 2^32 values for a sketch. Received: " +
                              std::to_string(n) + ". Split the tensor, or use more ranks.");
    }
    if (n == 0) return 0;
    return kSeedBytes + (TableSize(n) + NumKept(n)) * static_cast<int64_t>(sizeof(T));
  }

 protected:
  void EncodeValues(const T* values, T* residual, int64_t n, char* code) const override {
    if (n == 0) return;
    std::vector<T> x(values, values + n);
    for (int64_t i = 0; residual != nullptr && i < n; ++i) x[i] += residual[i];
    const uint64_t seed = SeedOf(x);
    const std::vector<SketchHash> hashes = MakeSketchHashes(settings_.rows, seed);
    const std::vector<T> table = TableOf(x, hashes);
    std::memcpy(code, &seed, kSeedBytes);
    std::memcpy(code + kSeedBytes, table.data(), table.size() * sizeof(T));
    char* to = code + kSeedBytes + table.size() * sizeof(T);
    if (std::isnan(table[0])) {
      std::fill_n(to, NumKept(n) * sizeof(T), 0);
      return;
    }
    for (int64_t place : HeaviestPlaces(table, hashes, n)) {
      std::memcpy(to, &x[place], sizeof(T));
      to += sizeof(T);
      x[place] = 0;
    }
    if (residual != nullptr) std::copy(x.begin(), x.end(), residual);
  }

  void DecodeValues(const char* code, int64_t n, T* values) const override {
    if (n == 0) return;
    uint64_t seed;
    std::memcpy(&seed, code, kSeedBytes);
    std::vector<T> table(TableSize(n));
    std::memcpy(table.data(), code + kSeedBytes, table.size() * sizeof(T));
    const bool is_told = !std::isnan(table[0]);
    std::fill_n(values, n, is_told ? T{0} : std::numeric_limits<T>::quiet_NaN());
    if (!is_told) return;
    const char* from = code + kSeedBytes + table.size() * sizeof(T);
    for (int64_t place : HeaviestPlaces(table, MakeSketchHashes(settings_.rows, seed), n)) {
      std::memcpy(&values[place], from, sizeof(T));
      from += sizeof(T);
    }
  }

 private:
  using Key = decltype(KeyOf(T()));
  using Cells = SketchHash::Cells;
  static constexpr int64_t kSeedBytes = sizeof(uint64_t);

  int64_t NumKept(int64_t n) const {
    const auto wanted = static_cast<int64_t>(std::ceil(settings_.fraction * n));
    return std::min(std::max(wanted, int64_t{1}), n);
  }
  int64_t NumColumns(int64_t n) const {
    const auto wanted = static_cast<int64_t>(settings_.sketch_fraction * n / settings_.rows);
    return std::max(wanted, int64_t{1});
  }
  int64_t TableSize(int64_t n) const { return settings_.rows * NumColumns(n); }

  // Of exponent and three bits of the mantissa of up to 32 values at even distances.
  static uint64_t SeedOf(const std::vector<T>& x) {
    constexpr int kLowBits = std::numeric_limits<T>::digits - 4;
    const auto n = static_cast<int64_t>(x.size()), m = std::min(n, int64_t{32});
    uint64_t seed = 0;
    for (int64_t i = 0; i < m; ++i) {
      seed ^= KeyOf(x[i * n / m]) >> kLowBits;
      seed = NextOfSplitMix(&seed);
    }
    return seed;
  }

  std::vector<T> TableOf(const std::vector<T>& x, const std::vector<SketchHash>& hashes) const {
    const int64_t n = static_cast<int64_t>(x.size()), columns = NumColumns(n);
    std::vector<T> table(TableSize(n));
    Cells cells;
    for (int64_t begin = 0; begin < n; begin += Cells::kMost) {
      const int64_t count = std::min(Cells::kMost, n - begin);
      T* sums = table.data();
      for (const SketchHash& hash : hashes) {
        hash.Find(begin, count, columns, &cells);
        for (int64_t i = 0; i < count; ++i) {
          sums[cells.column[i]] += kSigns[cells.is_negative[i]] * x[begin + i];
        }
        sums += columns;
      }
    }
    // A value that is no number makes its sums none.
    const bool is_told =
        std::all_of(table.begin(), table.end(), [](T s) { return std::isfinite(s); });
    if (!is_told) table[0] = std::numeric_limits<T>::quiet_NaN();
    return table;
  }

  // Of the largest estimates, those that come first among equal ones; ascending.
  std::vector<int64_t> HeaviestPlaces(const std::vector<T>& table,
                                      const std::vector<SketchHash>& hashes, int64_t n) const {
    const int64_t count = NumKept(n);
    const std::vector<Key> keys = KeysOfEstimates(table, hashes, n);
    std::vector<Key> sorted(keys);
    const auto last = sorted.begin() + (count - 1);
    std::nth_element(sorted.begin(), last, sorted.end(), std::greater<>());
    const Key least = *last;
    int64_t num_equal = std::count(sorted.begin(), last + 1, least);
    std::vector<int64_t> places;
    places.reserve(count);
    for (int64_t i = 0; i < n; ++i) {
      if (keys[i] > least || (keys[i] == least && num_equal-- > 0)) places.push_back(i);
    }
    return places;
  }

  std::vector<Key> KeysOfEstimates(const std::vector<T>& table,
                                   const std::vector<SketchHash>& hashes, int64_t n) const {
    const int64_t columns = NumColumns(n);
    std::vector<Key> keys(n);
    std::vector<T> of_rows(settings_.rows * Cells::kMost);
    Cells cells;
    for (int64_t begin = 0; begin < n; begin += Cells::kMost) {
      const int64_t count = std::min(Cells::kMost, n - begin);
      const T* sums = table.data();
      T* of_row = of_rows.data();
      for (const SketchHash& hash : hashes) {
        hash.Find(begin, count, columns, &cells);
        for (int64_t i = 0; i < count; ++i) {
          of_row[i] = kSigns[cells.is_negative[i]] * sums[cells.column[i]];
        }
        sums += columns;
        of_row += Cells::kMost;
      }
      SortUpperHalf(of_rows.data(), count);
      const T* const low = of_rows.data() + (settings_.rows - 1) / 2 * Cells::kMost;
      const T* const high = of_rows.data() + settings_.rows / 2 * Cells::kMost;
      // Twice the median: one in the middle of two alone would find more positive values than
      // negative ones.
      for (int64_t i = 0; i < count; ++i) keys[begin + i] = KeyOf(low[i] + high[i]);
    }
    return keys;
  }

  // Bubble sort of the rows, place by place, from the largest down to the middle: loops without
  // branches.
  void SortUpperHalf(T* of_rows, int64_t count) const {
    for (int end = settings_.rows - 1; end >= (settings_.rows - 1) / 2; --end) {
      for (int row = 0; row < end; ++row) {
        T* const lower = of_rows + row * Cells::kMost;
        T* const upper = lower + Cells::kMost;
        for (int64_t i = 0; i < count; ++i) {
          const T one = lower[i], other = upper[i];
          lower[i] = std::min(one, other);
          upper[i] = std::max(one, other);
        }
      }
    }
  }

  static constexpr T kSigns[2] = {1, -1};

  const SketchSettings settings_;
};

// "FRACTION:SKETCH_FRACTION:ROWS".
bool Parse(const std::string& text, SketchSettings* settings) {
  const size_t first = text.find(':');
  const size_t second = text.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return false;
  if (!ParseNumber(text.substr(0, first), &settings->fraction) ||
      !ParseNumber(text.substr(first + 1, second - first - 1), &settings->sketch_fraction)) {
    return false;
  }
  const char* const rows_text = text.c_str() + second + 1;
  char* end = nullptr;
  const int64_t rows = std::strtoll(rows_text, &end, 10);
  settings->rows = static_cast<int>(rows);
  const bool are_shares = settings->fraction > 0 && settings->sketch_fraction > 0 &&
                          settings->fraction + settings->sketch_fraction <= 1;
  return end != rows_text && *end == '\0' && are_shares && rows >= 1 && rows <= kMostRows;
}

std::unique_ptr<Codec> Make(const std::string& argument, DType dtype, const CodecKernels& kernels) {
  SketchSettings settings;
  if (!Parse(argument, &settings)) return nullptr;
  if (dtype == DType::kFloat32) return std::make_unique<Sketch<float>>(settings, kernels);
  return std::make_unique<Sketch<double>>(settings, kernels);
}

const RegisterCodec kRegistered("sketch",
                                "sketch:FRACTION:SKETCH_FRACTION:ROWS with fractions above 0, "
                                "together at most 1, ROWS 1 to 101",
                                &Make);

}  // namespace
}  // namespace adasum
