// A reduction says how two vectors become one; cc/algorithms says which, and when.
// A new reduction is one file here that registers itself.
#ifndef ADASUM_REDUCTIONS_REDUCTION_H_
#define ADASUM_REDUCTIONS_REDUCTION_H_

#include <memory>
#include <string>
#include <vector>

#include "cc/core/arithmetic.h"

namespace adasum {

// How many leaves two subtrees contain.
struct LeafCounts {
  int left;
  int right;
};

// Part of one meeting of two vectors: the pieces that one rank combines in one chunk.
struct Meeting {
  DType dtype;
  const std::vector<Piece>& pieces;  // in the order of their segments
  LeafCounts leaves;                 // of each operand
  bool is_final;                     // the result holds all leaves
  // Of whole segments, over all ranks that hold them; empty unless the reduction needs them.
  const std::vector<Moments>& moments;
  Arithmetic& arithmetic;
};

class Reduction {
 public:
  virtual ~Reduction() = default;

  virtual const char* name() const = 0;
  virtual bool Supports(DType dtype) const = 0;
  // Whether CudaArithmetic does what Combine asks of it.
  virtual bool WorksOnDevice() const { return true; }

  // Whether Combine looks at meeting.moments. Then it is a weighted sum of whole segments with the
  // Weights of these moments: so is a whole tree, and its weights follow from the leaves' moments.
  virtual bool NeedsMoments() const { return false; }
  virtual Coefficients Weights(const Moments& /*moments*/) const { return {1, 1}; }

  // Combines the pieces of a meeting into their `out` and their `copy`.
  virtual void Combine(const Meeting& meeting) const = 0;
};

// The registered reduction of that name; throws InvalidArgument, with the names there are.
const Reduction& FindReduction(const std::string& name);

// All registered names, sorted.
std::vector<std::string> ReductionNames();

// Registers a reduction when its file is loaded: static RegisterReduction r(make_unique<X>()).
class RegisterReduction {
 public:
  explicit RegisterReduction(std::unique_ptr<Reduction> reduction);
};

}  // namespace adasum

#endif  // ADASUM_REDUCTIONS_REDUCTION_H_
