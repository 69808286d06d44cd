// A reduction says how two vectors become one; the traversal (halving_doubling) says when.
// A new reduction is one file here that registers itself.
#ifndef ADASUM_REDUCTIONS_REDUCTION_H_
#define ADASUM_REDUCTIONS_REDUCTION_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/arithmetic.h"

namespace adasum {

// Adds moments over the ranks that together hold the two vectors; in place, all segments at once.
using GroupSum = std::function<void(std::vector<Moments>*)>;

// The number of leaves that each operand already contains.
struct LeafCounts {
  int left;
  int right;
};

// One meeting of two vectors, as one rank sees it: the pieces it owns.
struct Meeting {
  DType dtype;
  const std::vector<Piece>& pieces;
  int64_t num_segments;
  LeafCounts leaves;
  Arithmetic& arithmetic;
  const GroupSum& group_sum;
};

class Reduction {
 public:
  virtual ~Reduction() = default;

  virtual const char* name() const = 0;
  virtual bool Supports(DType dtype) const = 0;

  // Combines the pieces of a meeting into their `out`. Every rank that owns pieces of the same
  // two vectors makes the call, so it may use meeting.group_sum, all or none.
  virtual void Combine(const Meeting& meeting) const = 0;

  // Called once on every owned part of the result, when all leaves are in it.
  virtual void Finish(Arithmetic&, DType, void* /*values*/, int64_t /*num_elements*/,
                      int /*num_leaves*/) const {}
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
