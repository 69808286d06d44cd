// What suits this kind of host: looked up, or measured by the ranks together.
#ifndef ADASUM_COLLECTIVES_TUNER_H_
#define ADASUM_COLLECTIVES_TUNER_H_

#include "cc/core/tuning.h"
#include "cc/engine/request.h"

namespace adasum {

// From so many bytes on it matters.
constexpr int64_t kWorthTuning = int64_t{1} << 20;

// Collective, for ranks of which some share memory; returns the same on all.
//
// * A rank that is told not to (TF_ADASUM_TUNE=0) keeps all from it: the defaults.
// * What rank 0's file has for its kind of host, with so many ranks on it.
// * The defaults too where a host has fewer cores than ranks.
// * Else the ranks of each host time allreduces of a few MiB of their own, candidate by candidate
//   in turns, for about a twentieth of a second, all hosts at once and each for itself. What is
//   best on the slowest rank is chosen, if it is clearly better than the defaults, and rank 0 keeps
//   it.
Tuning ChooseTuning(RequestContext& context);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_TUNER_H_
