#include "cc/arithmetic/cpu_arithmetic.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <string>

#include "cc/arithmetic/slices.h"
#include "cc/core/bytes.h"
#include "cc/core/copy_bytes.h"
#include "cc/core/error.h"

namespace adasum {
namespace {

// The loop for `dtype`, or InvalidArgument where the operation does not exist for it.
template <typename Loop>
Loop Require(const Loop* loops, DType dtype, const char* operation) {
  Loop loop = loops[static_cast<int32_t>(dtype)];
  if (loop == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, std::string("Expected a dtype that has ") + operation +
                                                 ". Received: " + DTypeName(dtype));
  }
  return loop;
}

// Two vectors at a time, and every two of them with every two others: each value is converted about
// n / 2 times, for n / 2 products. `count` elements from `skip` on, which the first cache holds.
void AddGram(MomentsLoop moments, CrossLoop cross, int n, const void* const* operands, int64_t skip,
             int64_t count, double* gram) {
  const void* rows[kMostOperands + 1];
  for (int i = 0; i < n; ++i) rows[i] = At(operands[i], skip);
  rows[n] = rows[n - 1];  // where n is odd
  for (int i = 0; i < n; i += 2) {
    double sums[4] = {0, 0, 0, 0};
    moments(rows[i], rows[i + 1], count, sums);
    gram[GramIndex(n, i, i)] += sums[1];
    if (i + 1 == n) return;
    gram[GramIndex(n, i, i + 1)] += sums[0];
    gram[GramIndex(n, i + 1, i + 1)] += sums[2];
    for (int j = i + 2; j < n; j += 2) {
      double products[4] = {0, 0, 0, 0};
      cross(rows + i, rows + j, count, products);
      for (int k = 0; k < 4; ++k) {
        if (j + k % 2 < n) gram[GramIndex(n, i + k / 2, j + k % 2)] += products[k];
      }
    }
  }
}

// A coefficient is about the ratio of two norms, and beyond the float32 in which all but float64
// are combined if one vector is next to nothing: that one is scaled up first, by powers of two. The
// other's coefficient is between 0.5 and 1.5 then.
bool IsBeyondFloat32(const Coefficients& c) {
  const double most = std::max(std::abs(c.left), std::abs(c.right));
  return most > FLT_MAX && std::isfinite(most);
}

void CombineUnlike(CombineLoop loop, int64_t element_bytes, const Piece& piece,
                   const Coefficients& c) {
  constexpr int64_t kTileBytes = 4096;
  const int64_t tile = kTileBytes / element_bytes;
  alignas(64) char scaled[kTileBytes];
  const bool is_left_small = std::abs(c.left) > std::abs(c.right);
  const double steep = is_left_small ? c.left : c.right;
  // Up to 2^277, the ratio of float32's largest to its smallest number: in two steps, since float32
  // holds the power of two no more than the coefficient.
  const int shift = std::ilogb(steep) - 60;
  const double scales[2] = {std::ldexp(1.0, shift / 2), std::ldexp(1.0, shift - shift / 2)};
  const double rest = std::ldexp(steep, -shift);
  for (int64_t begin = 0; begin < piece.num_elements; begin += tile) {
    const int64_t n = std::min(tile, piece.num_elements - begin), skip = begin * element_bytes;
    const void* left = At(piece.left, skip);
    const void* right = At(piece.right, skip);
    const void* small = is_left_small ? left : right;
    loop(small, small, scales[0], 0, n, scaled);
    loop(scaled, scaled, scales[1], 0, n, scaled);
    if (is_left_small) {
      loop(scaled, right, rest, c.right, n, At(piece.out, skip));
    } else {
      loop(left, scaled, c.left, rest, n, At(piece.out, skip));
    }
  }
}

}  // namespace

void CpuArithmetic::AddMoments(DType dtype, const std::vector<Piece>& pieces, Moments* moments) {
  MomentsLoop loop = Require(kernels_.moments, dtype, "a dot product");
  for (const Piece& piece : pieces) {
    double sums[3] = {0, 0, 0};
    loop(piece.left, piece.right, piece.num_elements, sums);
    Moments& of_segment = moments[piece.segment];
    of_segment.dot += sums[0];
    of_segment.left_norm2 += sums[1];
    of_segment.right_norm2 += sums[2];
  }
}

void CpuArithmetic::AddGrams(DType dtype, int n, const std::vector<Stack>& stacks, double* grams) {
  MomentsLoop moments = Require(kernels_.moments, dtype, "a dot product");
  CrossLoop cross = Require(kernels_.cross, dtype, "a dot product");
  constexpr int64_t kTileBytes = 8192;
  const int64_t tile = kTileBytes / ElementBytes(dtype);
  for (const Stack& stack : stacks) {
    ForEachTileOf(stack, tile, [&](int64_t begin, int64_t count) {
      AddGram(moments, cross, n, stack.operands, begin * ElementBytes(dtype), count,
              grams + stack.segment * GramSize(n));
    });
  }
}

template <typename Part, typename Write>
void CpuArithmetic::ForEachTile(int64_t element_bytes, const std::vector<Part>& parts,
                                Write write) {
  // A result that goes to several addresses, or past the caches, is made in the first cache, a tile
  // at a time.
  constexpr int64_t kTileBytes = 8192;
  const int64_t tile = kTileBytes / element_bytes;
  alignas(64) char made[kTileBytes];
  for (const Part& whole : parts) {
    bool has_copies = false;
    ForEachCopy(whole, [&](void*) { has_copies = true; });
    const bool is_past_caches = IsPastCaches(whole);
    const bool is_made_apart = is_past_caches || whole.out == nullptr;
    if (!has_copies && !is_made_apart) {
      write(whole);
      continue;
    }
    for (int64_t begin = 0; begin < whole.num_elements; begin += tile) {
      Part part = Slice(whole, begin, std::min(tile, whole.num_elements - begin), element_bytes);
      const int64_t num_bytes = part.num_elements * element_bytes;
      void* const out = part.out;
      if (is_made_apart) part.out = made;
      write(part);
      if (is_past_caches) kernels_.stream(out, made, num_bytes);
      ForEachCopy(part, [&](void* copy) { Deliver(copy, part.out, num_bytes); });
    }
  }
  // Peers are told of `out` next.
  Finish();
}

void CpuArithmetic::Combine(DType dtype, const std::vector<Piece>& pieces,
                            const Coefficients* coefficients) {
  CombineLoop loop = Require(kernels_.combine, dtype, "a weighted sum");
  ForEachTile(ElementBytes(dtype), pieces, [=](const Piece& piece) {
    const Coefficients& c = coefficients[piece.segment];
    if (dtype != DType::kFloat64 && IsBeyondFloat32(c)) {
      return CombineUnlike(loop, ElementBytes(dtype), piece, c);
    }
    loop(piece.left, piece.right, c.left, c.right, piece.num_elements, piece.out);
  });
}

void CpuArithmetic::CombineStacks(DType dtype, int n, const std::vector<Stack>& stacks,
                                  const double* weights) {
  static_assert(kMostOperands <= kMostWeighed, "all at once");
  WeighLoop loop = Require(kernels_.weigh, dtype, "a weighted sum");
  ForEachTile(ElementBytes(dtype), stacks, [=](const Stack& stack) {
    loop(stack.operands, weights + stack.segment * n, n, stack.num_elements, stack.out);
  });
}

void CpuArithmetic::Apply(BinaryLoop loop, DType dtype, const std::vector<Piece>& pieces) {
  ForEachTile(ElementBytes(dtype), pieces, [=](const Piece& piece) {
    loop(piece.left, piece.right, piece.num_elements, piece.out);
  });
}

void CpuArithmetic::Add(DType dtype, const std::vector<Piece>& pieces) {
  Apply(Require(kernels_.add, dtype, "a sum"), dtype, pieces);
}

void CpuArithmetic::Min(DType dtype, const std::vector<Piece>& pieces) {
  Apply(Require(kernels_.min, dtype, "an order"), dtype, pieces);
}

void CpuArithmetic::Max(DType dtype, const std::vector<Piece>& pieces) {
  Apply(Require(kernels_.max, dtype, "an order"), dtype, pieces);
}

void CpuArithmetic::Multiply(DType dtype, const std::vector<Piece>& pieces) {
  Apply(Require(kernels_.multiply, dtype, "a product"), dtype, pieces);
}

void CpuArithmetic::LogicalAnd(const std::vector<Piece>& pieces) {
  ForEachTile(1, pieces, [](const Piece& piece) {
    const uint8_t* left = static_cast<const uint8_t*>(piece.left);
    const uint8_t* right = static_cast<const uint8_t*>(piece.right);
    uint8_t* out = static_cast<uint8_t*>(piece.out);
    for (int64_t i = 0; i < piece.num_elements; ++i) out[i] = left[i] & right[i];
  });
}

void CpuArithmetic::Divide(DType dtype, const std::vector<Piece>& pieces, int64_t divisor) {
  DivideLoop loop = Require(kernels_.divide, dtype, "a quotient");
  for (const Piece& piece : pieces) {
    loop(piece.out, piece.num_elements, divisor);
    if (piece.copy == nullptr) continue;
    Deliver(piece.copy, piece.out, piece.num_elements * ElementBytes(dtype));
  }
}

void CpuArithmetic::Copy(void* to, const void* from, int64_t num_bytes) {
  CopyBytes(to, from, num_bytes);
}

void CpuArithmetic::Deliver(void* to, const void* from, int64_t num_bytes) {
  if (delivers_past_caches_) return kernels_.stream(to, from, num_bytes);
  Copy(to, from, num_bytes);
}

void CpuArithmetic::CopyPiecesPastCaches(DType dtype, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    kernels_.stream(piece.out, piece.left, piece.num_elements * ElementBytes(dtype));
  }
  Finish();  // peers are told of them next
}

void CpuArithmetic::Finish() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();  // some ten cycles where nothing went past the caches
#endif
}

}  // namespace adasum
