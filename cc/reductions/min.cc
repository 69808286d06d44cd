// The smallest x_i, element by element; NaN where one is. For bool: whether all are true.

#include "cc/reductions/reduction.h"

namespace adasum {
namespace {

class Min : public Reduction {
 public:
  const char* name() const override { return "min"; }
  bool Supports(DType) const override { return true; }
  bool WorksOnDevice() const override { return false; }
  void Combine(const Meeting& meeting) const override {
    meeting.arithmetic.Min(meeting.dtype, meeting.pieces);
  }
};

const RegisterReduction kRegistered(std::make_unique<Min>());

}  // namespace
}  // namespace adasum
