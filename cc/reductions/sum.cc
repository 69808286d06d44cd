// sum_i x_i, in the order of the tree; for bool: whether any is true.

#include "cc/reductions/reduction.h"

namespace adasum {
namespace {

class Sum : public Reduction {
 public:
  const char* name() const override { return "sum"; }
  bool Supports(DType) const override { return true; }
  void Combine(const Meeting& meeting) const override {
    meeting.arithmetic.Add(meeting.dtype, meeting.pieces);
  }
};

const RegisterReduction kRegistered(std::make_unique<Sum>());

}  // namespace
}  // namespace adasum
