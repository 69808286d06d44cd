// Lists of pieces for tests of the CUDA kernels, in host memory.
#ifndef ADASUM_TESTS_CC_CUDA_LISTS_H_
#define ADASUM_TESTS_CC_CUDA_LISTS_H_

#include <cmath>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "cc/cuda/kernels/cuda_work.h"
#include "tests/cc/elements.h"

namespace adasum {
namespace test {

// Pieces as short as nothing and of several chunks (32 KiB each), whole and not.
inline const std::vector<int64_t> kCounts = {0,    1,    31,   32,    33,    1023, 0,
                                             4096, 8192, 8193, 40007, 16384, 5};

// Pairs of vectors of random values; `misaligned`: each at another distance from a multiple of 16.
struct Pairs {
  Pairs(DType dtype, const std::vector<int64_t>& counts, bool misaligned, unsigned seed = 5)
      : dtype(dtype) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    for (int64_t count : counts) {
      std::vector<double> a(count), b(count);
      for (std::vector<double>* values : {&a, &b}) {
        for (double& value : *values) {
          value = 300 * normal(random);
          if (!IsFloating(dtype)) value = std::trunc(value);
          if (dtype == DType::kBool) value = value > 0;
        }
      }
      const int step = static_cast<int>(ElementBytes(dtype));
      const int shift = misaligned ? static_cast<int>(left.size()) * step % 64 : 0;
      left.emplace_back(dtype, a, shift);
      right.emplace_back(dtype, b, misaligned ? shift * 3 % 64 : 0);
      out.emplace_back(dtype, count, misaligned ? (shift + step) % 64 : 0);
    }
  }
  std::vector<Piece> Pieces() {
    std::vector<Piece> pieces;
    for (size_t i = 0; i < left.size(); ++i) {
      pieces.push_back({static_cast<int64_t>(i), left[i].bytes(), right[i].bytes(), out[i].bytes(),
                        nullptr, left[i].size()});
    }
    return pieces;
  }

  DType dtype;
  std::deque<Elements> left, right, out;
};

// A list as a launcher gets it.
struct List {
  List(const std::vector<Piece>& pieces, int64_t element_bytes)
      : num_chunks(CountCudaChunks(pieces, element_bytes)),
        bytes(CudaWorkBytes(pieces.size(), num_chunks)) {
    WriteCudaWork(pieces, element_bytes, bytes.data());
    work = CudaWorkAt(bytes.data(), pieces.size(), num_chunks);
  }
  int64_t num_chunks;
  std::vector<char> bytes;
  CudaWork work;
};

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_CUDA_LISTS_H_
