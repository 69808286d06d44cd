// Which reduction a collective makes: one over all leaves, or one inside every host and another
// across hosts.
#ifndef ADASUM_COLLECTIVES_REDUCTION_SPEC_H_
#define ADASUM_COLLECTIVES_REDUCTION_SPEC_H_

#include <string>

#include "cc/core/dtype.h"
#include "cc/reductions/reduction.h"

namespace adasum {

struct ReductionSpec {
  // From the names that users give. `local_reduction` names the reduction inside every host;
  // "adasum" and "" stand for one tree over all leaves, whatever host they are on. Throws
  // InvalidArgument for a name that there is not, and for a dtype that can't be reduced so.
  static ReductionSpec Parse(const std::string& reduction, const std::string& local_reduction,
                             DType dtype);

  // As errors name it: "adasum", "adasum of each host's sum".
  std::string Text() const;

  const Reduction* across;
  const Reduction* inside;  // null for one tree over all leaves
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_REDUCTION_SPEC_H_
