// The hashes of count sketches: those of tf_adasum/collectives/compression/count_sketch.py.
#ifndef ADASUM_COMPRESSION_SKETCH_HASHES_H_
#define ADASUM_COMPRESSION_SKETCH_HASHES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace adasum {

// Of the places of one row, strongly universal below 2^32: of the upper 32 bits of a i + b mod 2^64
// the last is the sign, and the others, h, are the column floor(h c / 2^31) of c.
//
// Source: Dietzfelbinger, "Universal hashing and k-wise independent random variables via integer
// arithmetic without primes", STACS 1996.
class SketchHash {
 public:
  // Of consecutive places. `column` counts from the row's first cell.
  struct Cells {
    static constexpr int64_t kMost = 512;
    uint32_t column[kMost];
    uint32_t is_negative[kMost];  // 0 or 1
  };

  SketchHash(uint64_t a, uint64_t b) : a_(a), b_(b) {}

  // Of the `count` places from `first` on. `columns` is below 2^32.
  void Find(int64_t first, int64_t count, int64_t columns, Cells* cells) const {
    uint64_t sum = a_ * static_cast<uint64_t>(first) + b_;
    const auto c = static_cast<uint64_t>(columns);
    for (int64_t i = 0; i < count; ++i, sum += a_) {
      cells->column[i] = static_cast<uint32_t>((sum >> 33) * c >> 31);
      cells->is_negative[i] = static_cast<uint32_t>(sum >> 32) & 1;
    }
  }

 private:
  uint64_t a_, b_;
};

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the next number, which changes the state.
inline uint64_t NextOfSplitMix(uint64_t* state) {
  *state += 0x9E3779B97F4A7C15u;
  uint64_t x = *state;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

// Drawn by SplitMix64 from the seed on.
inline std::vector<SketchHash> MakeSketchHashes(int rows, uint64_t seed) {
  std::vector<SketchHash> hashes;
  for (int row = 0; row < rows; ++row) {
    const uint64_t a = NextOfSplitMix(&seed);
    hashes.emplace_back(a, NextOfSplitMix(&seed));
  }
  return hashes;
}

}  // namespace adasum

#endif  // ADASUM_COMPRESSION_SKETCH_HASHES_H_
