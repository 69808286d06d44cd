// An allreduce of many processes: what each brings, and what must come of it. Every process can
// draw what any other has, so that none has to hold the vectors of all.
#ifndef ADASUM_TESTS_SCALE_EXCHANGE_H_
#define ADASUM_TESTS_SCALE_EXCHANGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/collectives/allreduce.h"
#include "cc/engine/topology.h"
#include "tests/cc/elements.h"

namespace adasum {
namespace test {

// Equal on all ranks.
struct Exchange {
  std::string reduction;
  std::string local_reduction;  // empty for none
  DType dtype;
  std::vector<int64_t> counts;  // elements of each tensor

  std::string Name() const;
  int64_t num_bytes() const;
};

// One rank's part of an exchange.
class Part {
 public:
  Part(const Exchange& exchange, int rank);
  // Refers to this part, which must outlive the request.
  AllreduceTensors Tensors();
  const std::vector<Elements>& results() const { return results_; }
  // Equal where all bits are.
  uint64_t Digest() const;

 private:
  const Exchange exchange_;
  std::vector<Elements> inputs_;
  std::vector<Elements> results_;
};

// The results are the tree's in float64; with a local reduction, the tree over each host's own.
void CheckResults(const Exchange& exchange, const HostRanks& hosts, const Part& part);

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_SCALE_EXCHANGE_H_
