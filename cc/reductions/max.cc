// The largest x_i, element by element; NaN where one is. For bool: whether any is true.

#include "cc/reductions/reduction.h"

namespace adasum {
namespace {

class Max : public Reduction {
 public:
  const char* name() const override { return "max"; }
  bool Supports(DType) const override { return true; }
  bool WorksOnDevice() const override { return false; }
  void Combine(const Meeting& meeting) const override {
    meeting.arithmetic.Max(meeting.dtype, meeting.pieces);
  }
};

const RegisterReduction kRegistered(std::make_unique<Max>());

}  // namespace
}  // namespace adasum
