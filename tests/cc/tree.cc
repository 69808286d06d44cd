#include "tests/cc/tree.h"

#include <cfloat>
#include <cmath>
#include <functional>

namespace adasum {
namespace test {
namespace {

using Vector = std::vector<double>;
using Combine = std::function<Vector(const Vector&, const Vector&)>;

double Dot(const Vector& a, const Vector& b) {
  long double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<long double>(a[i]) * b[i];
  return static_cast<double>(sum);
}

Vector Weighted(double ca, const Vector& a, double cb, const Vector& b) {
  Vector out(a.size());
  for (size_t i = 0; i < a.size(); ++i) out[i] = ca * a[i] + cb * b[i];
  return out;
}

Vector AdasumOfTwo(const Vector& a, const Vector& b) {
  double dot = Dot(a, b), a2 = Dot(a, a), b2 = Dot(b, b);
  double ca = a2 < DBL_MIN ? 1 : 1 - dot / (2 * a2);
  double cb = b2 < DBL_MIN ? 1 : 1 - dot / (2 * b2);
  return Weighted(ca, a, cb, b);
}

Vector SumOfTwo(const Vector& a, const Vector& b) { return Weighted(1, a, 1, b); }

// The subtree over leaves [begin, begin + width), width a power of two. Its lower half stands left.
Vector Subtree(const std::vector<Vector>& leaves, size_t begin, size_t width, const Combine& meet) {
  if (width == 1) return leaves[begin];
  size_t half = width / 2;
  return meet(Subtree(leaves, begin, half, meet), Subtree(leaves, begin + half, half, meet));
}

Vector Tree(std::vector<Vector> leaves, const Combine& meet) {
  size_t power = 1;
  while (2 * power <= leaves.size()) power *= 2;
  for (size_t leaf = power; leaf < leaves.size(); ++leaf) {
    leaves[leaf - power] = meet(leaves[leaf - power], leaves[leaf]);
  }
  return Subtree(leaves, 0, power, meet);
}

}  // namespace

Vector ReduceTree(const std::string& reduction, DType dtype, const std::vector<Vector>& leaves) {
  if (reduction == "adasum") return Tree(leaves, AdasumOfTwo);
  Vector out = Tree(leaves, SumOfTwo);
  const double num_leaves = static_cast<double>(leaves.size());
  for (double& value : out) {
    // A sum of zeros and ones says how many are true.
    if (dtype == DType::kBool) {
      value = reduction == "sum" ? value > 0 : value == num_leaves;
    } else if (reduction == "mean") {
      value = IsFloating(dtype) ? value / num_leaves : std::trunc(value / num_leaves);
    }
  }
  return out;
}

double Norm(const Vector& values) {
  double largest = 0;
  for (double value : values) largest = std::fmax(largest, std::fabs(value));
  if (largest == 0 || !std::isfinite(largest)) return largest;
  double sum = 0;  // scaled, so that squares of 1e-200 do not vanish
  for (double value : values) sum += (value / largest) * (value / largest);
  return largest * std::sqrt(sum);
}

double Distance(const Vector& a, const Vector& b) { return Norm(Weighted(1, a, -1, b)); }

}  // namespace test
}  // namespace adasum
