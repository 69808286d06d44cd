// What all ranks get from the system, or none goes on: one that lacks it must not leave the others
// waiting.
#ifndef ADASUM_COLLECTIVES_TAKE_TOGETHER_H_
#define ADASUM_COLLECTIVES_TAKE_TOGETHER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "cc/core/scratch.h"
#include "cc/core/transport.h"

namespace adasum {

// Collective. Calls `take` on every rank; throws ResourceExhausted on all, common, if it threw an
// Error on one, or had no memory: "rank r: ", and the error's text between the two others.
void TakeTogether(Transport& transport, const std::function<void()>& take,
                  const std::string& before, const std::string& behind);

// The same for memory. `what` it is for, as errors show it: "rows".
void AllocateTogether(Transport& transport, const std::string& what,
                      const std::function<void()>& allocate);

// As scratch->Get, but throws ResourceExhausted.
void AllocateScratch(Scratch* scratch, int64_t num_bytes);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_TAKE_TOGETHER_H_
