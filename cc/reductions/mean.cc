// sum_i x_i / N. The sum of integers wraps, and its quotient truncates toward zero; for bool:
// whether all are true, which is what truncation makes of it.

#include "cc/reductions/reduction.h"

namespace adasum {
namespace {

class Mean : public Reduction {
 public:
  const char* name() const override { return "mean"; }
  bool Supports(DType) const override { return true; }

  void Combine(const Meeting& meeting) const override {
    if (meeting.dtype == DType::kBool) {
      meeting.arithmetic.LogicalAnd(meeting.pieces);
    } else if (meeting.dtype == DType::kFloat16) {
      CombineWeighted(meeting);
    } else if (!meeting.is_final) {
      meeting.arithmetic.Add(meeting.dtype, meeting.pieces);
    } else {
      AddAndDivide(meeting);
    }
  }

 private:
  static void AddAndDivide(const Meeting& meeting) {
    std::vector<Piece> sums = meeting.pieces;
    for (Piece& piece : sums) piece.copy = nullptr;
    meeting.arithmetic.Add(meeting.dtype, sums);
    meeting.arithmetic.Divide(meeting.dtype, meeting.pieces,
                              meeting.leaves.left + meeting.leaves.right);
  }

  // float16 ends at 65504 and scaled gradients come close to it: their sum would overflow where
  // their mean does not, so that every meeting takes the mean of the leaves so far.
  static void CombineWeighted(const Meeting& meeting) {
    double total = meeting.leaves.left + meeting.leaves.right;
    int64_t num_segments = meeting.pieces.empty() ? 0 : meeting.pieces.back().segment + 1;
    std::vector<Coefficients> weights(num_segments,
                                      {meeting.leaves.left / total, meeting.leaves.right / total});
    meeting.arithmetic.Combine(meeting.dtype, meeting.pieces, weights.data());
  }
};

const RegisterReduction kRegistered(std::make_unique<Mean>());

}  // namespace
}  // namespace adasum
