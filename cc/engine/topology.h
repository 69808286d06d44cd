// Where the ranks sit, and what they have there for their arithmetic.
#ifndef ADASUM_ENGINE_TOPOLOGY_H_
#define ADASUM_ENGINE_TOPOLOGY_H_

#include <vector>

#include "cc/arithmetic/instruction_sets.h"
#include "cc/core/tuning.h"

namespace adasum {

// The ranks of every host, ascending; hosts in the order of their lowest rank.
using HostRanks = std::vector<std::vector<int>>;

// The ranks of the host that `rank` is on. Throws Internal if it is on none.
const std::vector<int>& HostOf(int rank, const HostRanks& hosts);

// Of one rank; the same on all ranks but for the first two.
struct Topology {
  int local_rank = 0;
  int local_size = 1;
  // How many cores every rank has for its arithmetic.
  int cores = 1;
  HostRanks hosts = {{0}};
  // Of every rank's arithmetic, so that all round alike.
  InstructionSet instruction_set = InstructionSet::kBaseline;
  // This rank's own.
  TuningSettings tuning;
};

}  // namespace adasum

#endif  // ADASUM_ENGINE_TOPOLOGY_H_
