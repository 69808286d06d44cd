#include "cc/algorithms/squared_norms.h"

#include <cstring>

namespace adasum {
double SquaredNormOfResult(const Reduction& reduction, const Moments& moments) {
  const Coefficients c = reduction.Weights(moments);
  // Coefficient by coefficient: a square of one may be beyond the doubles where its term is not.
  const double norm2 = c.left * (c.left * moments.left_norm2) +
                       2 * (c.right * (c.left * moments.dot)) +
                       c.right * (c.right * moments.right_norm2);
  return norm2 < 0 ? 0 : norm2;  // rounding, where the two cancel; NaN stays
}

NormsOnTheWay::NormsOnTheWay(SquaredNorms* norms, int64_t num_segments, NormsScratch& scratch)
    : norms_(norms), num_segments_(norms == nullptr ? 0 : num_segments), scratch_(scratch) {
  scratch_.own.assign(num_segments_, 0);
  scratch_.theirs.assign(num_segments_, 0);
}

const void* NormsOnTheWay::Message(const void* vector, int64_t vector_bytes, const void* behind,
                                   int64_t behind_bytes) {
  if (behind_bytes == 0) return vector;
  std::vector<char>& message = scratch_.message;
  message.resize(vector_bytes + behind_bytes);
  std::memcpy(message.data(), vector, vector_bytes);
  std::memcpy(message.data() + vector_bytes, behind, behind_bytes);
  return message.data();
}

void NormsOnTheWay::SwapMoments(Transport& transport, int peer, const std::vector<Moments>& own,
                                std::vector<Moments>* theirs) {
  std::vector<NormsScratch::Carried>&sent = scratch_.sent, &received = scratch_.received;
  sent.resize(num_segments_);
  received.resize(num_segments_);
  for (int64_t i = 0; i < num_segments_; ++i) sent[i] = {own[i], scratch_.own[i]};
  const int64_t num_bytes = num_segments_ * static_cast<int64_t>(sizeof(NormsScratch::Carried));
  transport.SendRecv({peer, sent.data(), num_bytes}, {peer, received.data(), num_bytes});
  for (int64_t i = 0; i < num_segments_; ++i) {
    (*theirs)[i] = received[i].moments;
    scratch_.theirs[i] = received[i].leaves;
  }
}

void NormsOnTheWay::Meet(const Reduction& reduction, LeafCounts leaves, bool is_left,
                         const std::vector<Moments>& moments) {
  const std::vector<double>& lefts = is_left ? scratch_.own : scratch_.theirs;
  const std::vector<double>& rights = is_left ? scratch_.theirs : scratch_.own;
  for (int64_t i = 0; i < num_segments_; ++i) {
    // Left and right in this order on both sides, so that all have the same bits.
    const double sum = (leaves.left == 1 ? moments[i].left_norm2 : lefts[i]) +
                       (leaves.right == 1 ? moments[i].right_norm2 : rights[i]);
    scratch_.own[i] = sum;
    norms_[i] = {SquaredNormOfResult(reduction, moments[i]), sum};
  }
}

}  // namespace adasum
