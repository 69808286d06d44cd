// What the reductions of N leaves are, in float64 and by recursion: the definition, apart from the
// algorithms.
#ifndef ADASUM_TESTS_CC_TREE_H_
#define ADASUM_TESTS_CC_TREE_H_

#include <string>
#include <vector>

#include "cc/core/dtype.h"

namespace adasum {
namespace test {

// The reduction of one variable. leaves[leaf] holds its elements as doubles; "adasum", "sum" and
// "mean" as they are defined for the dtype.
std::vector<double> ReduceTree(const std::string& reduction, DType dtype,
                               const std::vector<std::vector<double>>& leaves);

// Sizes are compared by their L2 norm.
double Norm(const std::vector<double>& values);
double Distance(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_TREE_H_
