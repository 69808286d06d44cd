// The k = ceil(fraction n) values that a count sketch shows to be the heaviest; all others are 0.
//
// A code is the sketch, a table of r rows and c columns, and then the k values in the order of
// their places:
//
//   table[j][h_j(i)] = sum of s_j(i) x_i,   x_i ~ median over j of s_j(i) table[j][h_j(i)]
//
// Who decodes finds the same places in the same table, so that no place travels: both compare what
// is in the table, and add at most the two in the middle of it, which all machines round alike. A
// first entry that is NaN says that some value was no number, or a sum beyond the dtype: all of q
// is NaN then, and the residual stays.
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
      : TypedCodec<T>(kernels), settings_(settings), hashes_(MakeSketchHashes(settings.rows)) {}

  int64_t EncodedBytes(int64_t n) const override {
    if (n == 0) return 0;
    return (settings_.rows * NumColumns(n) + NumKept(n)) * static_cast<int64_t>(sizeof(T));
  }

 protected:
  void EncodeValues(const T* values, T* residual, int64_t n, char* code) const override {
    if (n == 0) return;
    std::vector<T> x(values, values + n);
    for (int64_t i = 0; residual != nullptr && i < n; ++i) x[i] += residual[i];
    const std::vector<T> table = TableOf(x);
    std::memcpy(code, table.data(), table.size() * sizeof(T));
    const bool is_told = !std::isnan(table[0]);
    if (is_told && residual != nullptr) std::copy(x.begin(), x.end(), residual);
    char* to = code + table.size() * sizeof(T);
    for (int64_t place : HeaviestPlaces(table, n)) {
      std::memcpy(to, &x[place], sizeof(T));
      to += sizeof(T);
      if (is_told && residual != nullptr) residual[place] = 0;
    }
  }

  void DecodeValues(const char* code, int64_t n, T* values) const override {
    if (n == 0) return;
    std::vector<T> table(settings_.rows * NumColumns(n));
    std::memcpy(table.data(), code, table.size() * sizeof(T));
    const bool is_told = !std::isnan(table[0]);
    std::fill_n(values, n, is_told ? T{0} : std::numeric_limits<T>::quiet_NaN());
    if (!is_told) return;
    const char* from = code + table.size() * sizeof(T);
    for (int64_t place : HeaviestPlaces(table, n)) {
      std::memcpy(&values[place], from, sizeof(T));
      from += sizeof(T);
    }
  }

 private:
  using Key = decltype(KeyOf(T()));

  int64_t NumKept(int64_t n) const {
    const auto wanted = static_cast<int64_t>(std::ceil(settings_.fraction * n));
    return std::min(std::max(wanted, int64_t{1}), n);
  }
  int64_t NumColumns(int64_t n) const {
    const auto wanted = static_cast<int64_t>(settings_.sketch_fraction * n / settings_.rows);
    return std::max(wanted, int64_t{1});
  }

  std::vector<T> TableOf(const std::vector<T>& x) const {
    const int64_t n = static_cast<int64_t>(x.size()), columns = NumColumns(n);
    std::vector<T> table(settings_.rows * columns);
    bool is_told = true;
    for (T value : x) is_told = is_told && std::isfinite(value);
    for (int row = 0; row < settings_.rows; ++row) {
      T* const sums = table.data() + row * columns;
      for (int64_t i = 0; i < n; ++i) {
        const SketchCell cell = hashes_[row].CellOf(i, columns);
        sums[cell.column] += cell.is_negative ? -x[i] : x[i];
      }
    }
    if (!is_told) table[0] = std::numeric_limits<T>::quiet_NaN();
    return table;
  }

  // Of the largest estimates, those that come first among equal ones; ascending.
  std::vector<int64_t> HeaviestPlaces(const std::vector<T>& table, int64_t n) const {
    const int64_t count = NumKept(n);
    const std::vector<Key> keys = KeysOfEstimates(table, n);
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

  std::vector<Key> KeysOfEstimates(const std::vector<T>& table, int64_t n) const {
    const int64_t columns = NumColumns(n);
    const int rows = settings_.rows;
    std::vector<Key> keys(n);
    T of_rows[kMostRows];
    for (int64_t i = 0; i < n; ++i) {
      for (int row = 0; row < rows; ++row) {
        const SketchCell cell = hashes_[row].CellOf(i, columns);
        const T sum = table[row * columns + cell.column];
        of_rows[row] = cell.is_negative ? -sum : sum;
      }
      keys[i] = KeyOf(TwiceTheMedian(of_rows, rows));
    }
    return keys;
  }

  // The sum of both in the middle, or of the one with itself: one of two alone would find more
  // positive values than negative ones. By the keys' order, in which NaN has a place.
  static T TwiceTheMedian(T* of_rows, int rows) {
    const auto less = [](T one, T other) { return OrderedKeyOf(one) < OrderedKeyOf(other); };
    T* const high = of_rows + rows / 2;
    std::nth_element(of_rows, high, of_rows + rows, less);
    const T low = rows % 2 == 1 ? *high : *std::max_element(of_rows, high, less);
    return low + *high;
  }

  const SketchSettings settings_;
  const std::vector<SketchHash> hashes_;
};

bool IsShare(double number) { return number > 0 && number <= 1; }

// "FRACTION:SKETCH_FRACTION:ROWS".
bool Parse(const std::string& text, SketchSettings* settings) {
  char* end = nullptr;
  char* last = nullptr;
  settings->fraction = std::strtod(text.c_str(), &end);
  if (*end != ':') return false;
  settings->sketch_fraction = std::strtod(end + 1, &last);
  if (*last != ':') return false;
  const int64_t rows = std::strtoll(last + 1, &end, 10);
  settings->rows = static_cast<int>(rows);
  return end != last + 1 && *end == '\0' && IsShare(settings->fraction) &&
         IsShare(settings->sketch_fraction) && rows >= 1 && rows <= kMostRows;
}

std::unique_ptr<Codec> Make(const std::string& argument, DType dtype, const CodecKernels& kernels) {
  SketchSettings settings;
  if (!Parse(argument, &settings)) return nullptr;
  if (dtype == DType::kFloat32) return std::make_unique<Sketch<float>>(settings, kernels);
  return std::make_unique<Sketch<double>>(settings, kernels);
}

const RegisterCodec kRegistered(
    "sketch",
    "sketch:FRACTION:SKETCH_FRACTION:ROWS with both fractions above 0 and at most 1, ROWS 1 to 101",
    &Make);

}  // namespace
}  // namespace adasum
