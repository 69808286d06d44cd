// The product of x_i, in the order of the tree; integers wrap. For bool: whether all are true.

#include "cc/reductions/reduction.h"

namespace adasum {
namespace {

class Product : public Reduction {
 public:
  const char* name() const override { return "product"; }
  bool Supports(DType) const override { return true; }
  bool WorksOnDevice() const override { return false; }
  void Combine(const Meeting& meeting) const override {
    meeting.arithmetic.Multiply(meeting.dtype, meeting.pieces);
  }
};

const RegisterReduction kRegistered(std::make_unique<Product>());

}  // namespace
}  // namespace adasum
