// How large a result is beside the leaves that it was made of: found from the moments by which the
// tree combines them, so that no vector is looked at again.
#ifndef ADASUM_ALGORITHMS_SQUARED_NORMS_H_
#define ADASUM_ALGORITHMS_SQUARED_NORMS_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "cc/core/arithmetic.h"
#include "cc/core/transport.h"
#include "cc/reductions/reduction.h"

namespace adasum {

// Of one segment; NaN where nobody has measured them. The result is the one before it is rounded to
// its dtype.
struct SquaredNorms {
  double result = std::numeric_limits<double>::quiet_NaN();  // |result|^2
  double leaves = std::numeric_limits<double>::quiet_NaN();  // the sum of all leaves' |x_i|^2
};

// Of left and right as `reduction`, which needs moments, combines them.
double SquaredNormOfResult(const Reduction& reduction, const Moments& moments);

// What one leaf keeps of them between collectives: a message that is given up finds its memory.
struct NormsScratch {
  struct Carried {
    Moments moments;
    double leaves;
  };
  std::vector<double> own, theirs;
  std::vector<Carried> sent, received;
  std::vector<char> message;
  std::vector<SquaredNorms> unread;  // of a leaf whose caller has no use for them
};

// What a leaf knows of the squared norms while it goes down the tree: those of the leaves that are
// in its vector. They travel behind moments or vectors, in the same messages. Nothing is done, and
// nothing sent, where `norms` is null.
class NormsOnTheWay {
 public:
  // `norms` has one entry per segment, written by Meet.
  NormsOnTheWay(SquaredNorms* norms, int64_t num_segments, NormsScratch& scratch);

  bool is_wanted() const { return norms_ != nullptr; }
  // What goes behind a message, and where a peer's is to be put: one number per segment.
  int64_t num_bytes() const { return num_segments_ * static_cast<int64_t>(sizeof(double)); }
  const void* own() const { return scratch_.own.data(); }
  void* theirs() { return scratch_.theirs.data(); }
  // `vector` and `behind` as one run of bytes; the vector itself if there is nothing behind it.
  const void* Message(const void* vector, int64_t vector_bytes, const void* behind,
                      int64_t behind_bytes);

  // Swaps moments with a leaf of the other subtree, and what goes behind them.
  void SwapMoments(Transport& transport, int peer, const std::vector<Moments>& own,
                   std::vector<Moments>* theirs);
  // The vectors of two subtrees of so many leaves are combined; this leaf is of the left one or
  // not, and has the numbers of the other in theirs(). `moments` are those of whole segments.
  void Meet(const Reduction& reduction, LeafCounts leaves, bool is_left,
            const std::vector<Moments>& moments);

  // All that Meet has written, for a leaf that has folded away.
  const void* found() const { return norms_; }
  void* to_find() { return norms_; }
  int64_t found_bytes() const { return num_segments_ * static_cast<int64_t>(sizeof(SquaredNorms)); }

 private:
  SquaredNorms* const norms_;
  const int64_t num_segments_;  // 0 if nobody asks
  // Of a leaf by itself nothing is known before its moments: its side of them is its norm.
  NormsScratch& scratch_;
};

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_SQUARED_NORMS_H_
