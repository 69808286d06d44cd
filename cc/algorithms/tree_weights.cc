#include "cc/algorithms/tree_weights.h"

#include <algorithm>
#include <cmath>

namespace adasum {
namespace {

// Squared norms between which products neither overflow nor lose bits.
constexpr double kLeastNorm2 = 1e-280;
constexpr double kMostNorm2 = 1e280;
// All but float64 are combined in float32.
constexpr double kMostWeight = 1e30;

// The least part of a squared norm, of what it would be were the leaves orthogonal, that will do:
// of less, products lose digits, and the weights are so large that their sums do, too. The small
// floats are combined in float32, and have digits to lose.
double LeastShare(DType dtype) { return ElementBytes(dtype) < 4 ? 1e-4 : 1.0 / 16; }

// A weighted sum of leaves.
struct Vector {
  double weights[kMostOperands] = {};
  bool is_leaf = true;
};

class Tree {
 public:
  Tree(int n, DType dtype, const double* gram)
      : n_(n), least_share_(LeastShare(dtype)), gram_(gram) {
    for (int i = 0; i < n; ++i) vectors_[i].weights[i] = 1;
  }

  // False if the moments of the two can't be told.
  bool Meet(const Reduction& reduction, const TreeNode& node) {
    Vector& left = vectors_[node.left];
    const Vector& right = vectors_[node.right];
    const Moments moments{Product(left, right), Product(left, left), Product(right, right)};
    if (!IsTold(left, moments.left_norm2) || !IsTold(right, moments.right_norm2)) return false;
    const Coefficients c = reduction.Weights(moments);
    for (int i = 0; i < n_; ++i) {
      left.weights[i] = c.left * left.weights[i] + c.right * right.weights[i];
    }
    left.is_leaf = false;
    return true;
  }

  // The weights of the leaves in the result, unless terms are much larger than all leaves.
  bool Read(double* weights) const {
    double most = 0;
    for (int i = 0; i < n_; ++i) {
      weights[i] = vectors_[0].weights[i];
      most = std::max(most, gram_[GramIndex(n_, i, i)]);
    }
    return n_ == 2 || Apart(vectors_[0]) <= n_ / (4 * least_share_) * most;
  }

 private:
  double Product(const Vector& a, const Vector& b) const {
    double sum = 0;
    for (int i = 0; i < n_; ++i) {
      for (int j = 0; j < n_; ++j) {
        const double weight = a.weights[i] * b.weights[j];
        if (weight != 0) sum += weight * gram_[GramIndex(n_, i, j)];  // not 0 * infinity
      }
    }
    return sum;
  }

  // The squared norm, were the leaves orthogonal.
  double Apart(const Vector& vector) const {
    double sum = 0;
    for (int i = 0; i < n_; ++i) {
      const double weight = vector.weights[i] * vector.weights[i];
      if (weight != 0) sum += weight * gram_[GramIndex(n_, i, i)];
    }
    return sum;
  }

  // Whether `norm2` is that of `vector` to enough digits. False for NaN.
  bool IsTold(const Vector& vector, double norm2) const {
    if (vector.is_leaf) return true;
    const double apart = Apart(vector);
    if (apart == 0) return true;  // zeros alone
    return apart >= kLeastNorm2 && apart <= kMostNorm2 && norm2 >= least_share_ * apart;
  }

  const int n_;
  const double least_share_;
  const double* const gram_;
  Vector vectors_[kMostOperands];
};

}  // namespace

bool WeightsOfTree(const Reduction& reduction, const std::vector<TreeNode>& tree, int n,
                   DType dtype, const double* gram, double* weights) {
  Tree vectors(n, dtype, gram);
  for (const TreeNode& node : tree) {
    if (!vectors.Meet(reduction, node)) return false;
  }
  if (!vectors.Read(weights)) return false;
  const double* const begin = weights;
  return dtype == DType::kFloat64 || std::all_of(begin, begin + n, [](double weight) {
           return std::abs(weight) <= kMostWeight;
         });
}

SquaredNorms NormsOfSum(int n, const double* gram, const double* weights) {
  SquaredNorms norms{0, 0};
  for (int i = 0; i < n; ++i) {
    norms.leaves += gram[GramIndex(n, i, i)];
    for (int j = 0; j < n; ++j) {
      if (weights[i] == 0 || weights[j] == 0) continue;  // not 0 * infinity
      norms.result += weights[i] * (weights[j] * gram[GramIndex(n, i, j)]);
    }
  }
  if (norms.result < 0) norms.result = 0;  // rounding, where leaves cancel; NaN stays
  return norms;
}

}  // namespace adasum
