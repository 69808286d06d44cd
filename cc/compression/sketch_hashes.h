// The hashes of count sketches, the same on all ranks, and those of
// tf_adasum/collectives/compression/count_sketch.py.
#ifndef ADASUM_COMPRESSION_SKETCH_HASHES_H_
#define ADASUM_COMPRESSION_SKETCH_HASHES_H_

#include <cstdint>
#include <vector>

namespace adasum {

struct SketchCell {
  int64_t column;
  bool is_negative;
};

// Of one row, 2-universal: with p = 2^31 - 1, the column floor(((a i + b) mod p) c / 2^31) of c,
// and the sign (a' i + b') mod p mod 2.
class SketchHash {
 public:
  explicit SketchHash(const uint64_t factors[4])
      : a_(factors[0]), b_(factors[1]), of_sign_(factors[2]), shift_(factors[3]) {}

  SketchCell CellOf(int64_t i, int64_t columns) const {
    const uint64_t place = Modulo(static_cast<uint64_t>(i));
    const uint64_t hash = Modulo(a_ * place + b_);
    return {static_cast<int64_t>(hash * static_cast<uint64_t>(columns) >> 31),
            (Modulo(of_sign_ * place + shift_) & 1) != 0};
  }

 private:
  static constexpr uint64_t kPrime = (uint64_t{1} << 31) - 1;

  // Of anything: 2^31 is 1 modulo the prime.
  static uint64_t Modulo(uint64_t x) {
    x = (x & kPrime) + (x >> 31);
    x = (x & kPrime) + (x >> 31);
    return x >= kPrime ? x - kPrime : x;
  }

  uint64_t a_, b_, of_sign_, shift_;
};

// Factors from 1 to p - 1, drawn by SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) from 0 on.
inline std::vector<SketchHash> MakeSketchHashes(int rows) {
  std::vector<SketchHash> hashes;
  uint64_t state = 0;
  for (int row = 0; row < rows; ++row) {
    uint64_t factors[4];
    for (uint64_t& factor : factors) {
      state += 0x9E3779B97F4A7C15u;
      uint64_t x = state;
      x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
      x = (x ^ x >> 27) * 0x94D049BB133111EBu;
      factor = (x ^ x >> 31) % ((uint64_t{1} << 31) - 2) + 1;
    }
    hashes.emplace_back(factors);
  }
  return hashes;
}

}  // namespace adasum

#endif  // ADASUM_COMPRESSION_SKETCH_HASHES_H_
