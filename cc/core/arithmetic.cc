#include "cc/core/arithmetic.h"

namespace adasum {

// Pair by pair: every operand is read n - 1 times, which a device may well do better.
void Arithmetic::AddGrams(DType dtype, int n, const std::vector<Stack>& stacks, double* grams) {
  for (int i = 0; i < n; ++i) {
    for (int j = i + 1; j < n; ++j) {
      std::vector<Piece> pieces;
      for (const Stack& stack : stacks) {
        pieces.push_back({static_cast<int64_t>(pieces.size()), stack.operands[i], stack.operands[j],
                          nullptr, nullptr, stack.num_elements});
      }
      std::vector<Moments> moments(pieces.size());
      AddMoments(dtype, pieces, moments.data());
      AwaitMoments();
      for (size_t k = 0; k < stacks.size(); ++k) {
        double* gram = grams + stacks[k].segment * GramSize(n);
        gram[GramIndex(n, i, j)] += moments[k].dot;
        if (j == i + 1) gram[GramIndex(n, i, i)] += moments[k].left_norm2;
        if (i == n - 2) gram[GramIndex(n, j, j)] += moments[k].right_norm2;
      }
    }
  }
}

void Arithmetic::CombineStacks(DType dtype, int n, const std::vector<Stack>& stacks,
                               const double* weights) {
  for (int i = 1; i < n; ++i) {
    std::vector<Piece> pieces;
    std::vector<Coefficients> coefficients;
    for (const Stack& stack : stacks) {
      const double* w = weights + stack.segment * n;
      pieces.push_back({static_cast<int64_t>(pieces.size()), i == 1 ? stack.operands[0] : stack.out,
                        stack.operands[i], stack.out, i == n - 1 ? stack.copy : nullptr,
                        stack.num_elements});
      coefficients.push_back({i == 1 ? w[0] : 1, w[i]});
    }
    Combine(dtype, pieces, coefficients.data());
  }
}

}  // namespace adasum
