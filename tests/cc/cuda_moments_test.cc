// The CUDA kernel of the moments, run on the CPU by cuda_emulation: the source that nvcc compiles,
// against scalar float64. What only a GPU can show is in tests/gpu.

#include "tests/cc/cuda_emulation.h"
// Only behind it, what is made of its words.
#include <cfloat>
#include <cmath>

#include "cc/cuda/kernels/cuda_moments.cu.h"
#include "tests/cc/check.h"
#include "tests/cc/cuda_lists.h"

namespace adasum {
namespace {

using test::Elements;
using test::kCounts;
using test::kFloats;
using test::List;
using test::Pairs;
using test::Scope;

// Calls run(T()) with the kernels' type of `dtype`.
template <typename Run>
void WithType(DType dtype, Run run) {
  switch (dtype) {
    case DType::kFloat16:
      return run(__half());
    case DType::kBFloat16:
      return run(__nv_bfloat16());
    case DType::kFloat32:
      return run(float());
    default:
      return run(double());
  }
}

std::vector<Moments> RunMoments(DType dtype, const std::vector<Piece>& pieces, int num_blocks,
                                unsigned seed) {
  List list(pieces, ElementBytes(dtype));
  std::vector<Moments> moments(pieces.size(), {-1, -1, -1}), partials(list.num_chunks);
  std::vector<unsigned> arrivals(pieces.size());
  CudaMomentsMemory memory = {moments.data(), partials.data(), arrivals.data()};
  WithType(dtype, [&](auto type) {
    test::RunGrid(num_blocks, cuda::kThreads, seed,
                  [&] { cuda::MomentsKernel<decltype(type)>(list.work, memory); });
  });
  for (unsigned count : arrivals) CHECK_EQ(static_cast<int>(count), 0);
  return moments;
}

void CheckSame(const std::vector<Moments>& got, const std::vector<Moments>& expected) {
  CHECK_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(Moments)), 0);
}

TEST(Moments) {
  for (DType dtype : kFloats) {
    Scope scope(DTypeName(dtype));
    for (bool misaligned : {false, true}) {
      Pairs pairs(dtype, kCounts, misaligned);
      std::vector<Moments> moments = RunMoments(dtype, pairs.Pieces(), 4, 1);
      for (size_t i = 0; i < moments.size(); ++i) {
        const double got[3] = {moments[i].dot, moments[i].left_norm2, moments[i].right_norm2};
        long double expected[3] = {0, 0, 0}, magnitude[3] = {0, 0, 0};
        for (int64_t k = 0; k < pairs.left[i].size(); ++k) {
          const long double x = pairs.left[i][k], y = pairs.right[i][k];
          const long double terms[3] = {x * y, x * x, y * y};
          for (int m = 0; m < 3; ++m) {
            expected[m] += terms[m];
            magnitude[m] += std::fabs(terms[m]);
          }
        }
        for (int m = 0; m < 3; ++m) {
          // At most 64 terms a thread and chunk, 16 steps through the block, 8 over the chunks.
          const double limit = DBL_EPSILON * (64 + 16 + 8) * static_cast<double>(magnitude[m]);
          CHECK_AT_MOST(std::fabs(static_cast<double>(got[m] - expected[m])), limit);
        }
      }
    }
  }
}

// Whatever the grid, the order of the blocks and the alignment of the operands.
TEST(MomentsHaveOneOrder) {
  for (DType dtype : kFloats) {
    Scope scope(DTypeName(dtype));
    Pairs aligned(dtype, kCounts, false), misaligned(dtype, kCounts, true);
    const std::vector<Moments> first = RunMoments(dtype, aligned.Pieces(), 1, 1);
    CheckSame(RunMoments(dtype, aligned.Pieces(), 5, 2), first);
    CheckSame(RunMoments(dtype, aligned.Pieces(), 40, 3), first);
    CheckSame(RunMoments(dtype, misaligned.Pieces(), 7, 4), first);
  }
}

// The two ranks of a meeting hold one vector as left and one as right operand.
TEST(MomentsOfSwappedOperands) {
  for (DType dtype : kFloats) {
    Pairs pairs(dtype, kCounts, true);
    std::vector<Piece> swapped = pairs.Pieces();
    for (Piece& piece : swapped) std::swap(piece.left, piece.right);
    std::vector<Moments> there = RunMoments(dtype, swapped, 3, 1);
    for (Moments& moments : there) std::swap(moments.left_norm2, moments.right_norm2);
    CheckSame(there, RunMoments(dtype, pairs.Pieces(), 4, 2));
  }
}

TEST(ManyTinyPieces) {
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < 700; ++i) counts.push_back(i % 37);
  Pairs pairs(DType::kFloat32, counts, true);
  std::vector<Moments> moments = RunMoments(DType::kFloat32, pairs.Pieces(), 64, 1);
  for (size_t i = 0; i < counts.size(); ++i) {
    double expected = 0;
    for (int64_t k = 0; k < counts[i]; ++k) expected += pairs.left[i][k] * pairs.left[i][k];
    CHECK_AT_MOST(std::fabs(moments[i].left_norm2 - expected), 40 * DBL_EPSILON * expected);
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
