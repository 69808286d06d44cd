// What all ranks refuse alike, with nothing under way: the communicator can be used afterwards.
#ifndef ADASUM_COLLECTIVES_REFUSAL_H_
#define ADASUM_COLLECTIVES_REFUSAL_H_

#include <string>

#include "cc/core/transport.h"

namespace adasum {

// Throws InvalidArgument, common: "rank r: `message`". All ranks must come here.
[[noreturn]] void RefuseOnAllRanks(const Transport& transport, const std::string& message);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_REFUSAL_H_
