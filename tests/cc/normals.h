// Numbers for operands, by millions: std::normal_distribution took a third of a test's time.
#ifndef ADASUM_TESTS_CC_NORMALS_H_
#define ADASUM_TESTS_CC_NORMALS_H_

#include <cstdint>
#include <random>

namespace adasum {
namespace test {

// Roughly normal, of mean 0 and variance 1: the sum of four uniform numbers of 16 bits each, from
// one step of Steele's SplitMix64 ("Fast Splittable Pseudorandom Number Generators", 2014).
class Normals {
 public:
  explicit Normals(uint64_t seed) : state_(seed) {}

  double operator()() {
    uint64_t bits = state_ += 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    bits ^= bits >> 31;
    const int64_t sum = static_cast<int64_t>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                             (bits >> 32 & 0xffff) + (bits >> 48));
    // Four variances of 2^32 / 12 each.
    return static_cast<double>(sum - 131070) * (1.7320508075688772 / 65536);
  }

 private:
  uint64_t state_;
};

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_NORMALS_H_
