// Adasum (Maleki et al., MLSys 2021, section 3), per segment:
//
//   Adasum(a, b) = (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b
//
// What is orthogonal is added, what is parallel averaged.

#include <cfloat>
#include <cmath>

#include "cc/reductions/reduction.h"

namespace adasum {
namespace {

// A vector whose squared norm is zero or subnormal has no direction to compare with: it is added
// as it is, which makes zero the identity. DBL_MIN and not its root, so that float64 gradients
// of scale 1e-150 still meet as Adasum says.
double Coefficient(double dot, double norm2) {
  if (norm2 < DBL_MIN) return 1.0;
  // Of a squared norm beyond the doubles no more is known: their quotient is next to nothing, or it
  // can't be told.
  if (std::isinf(norm2)) return std::fabs(dot) < DBL_EPSILON / 4 * DBL_MAX ? 1.0 : NAN;
  // Halved last: twice a squared norm may be beyond the doubles where the norm is not.
  return 1.0 - 0.5 * (dot / norm2);
}

class Adasum : public Reduction {
 public:
  const char* name() const override { return "adasum"; }
  bool Supports(DType dtype) const override { return IsFloating(dtype); }

  bool NeedsMoments() const override { return true; }
  Coefficients Weights(const Moments& m) const override {
    return {Coefficient(m.dot, m.left_norm2), Coefficient(m.dot, m.right_norm2)};
  }

  void Combine(const Meeting& meeting) const override {
    std::vector<Coefficients> coefficients(meeting.moments.size());
    for (const Piece& piece : meeting.pieces) {
      coefficients[piece.segment] = Weights(meeting.moments[piece.segment]);
    }
    meeting.arithmetic.Combine(meeting.dtype, meeting.pieces, coefficients.data());
  }
};

const RegisterReduction kRegistered(std::make_unique<Adasum>());

}  // namespace
}  // namespace adasum
