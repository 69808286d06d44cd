// Every rank's text at every rank, for what is small and rare: set-up and disagreement.
#ifndef ADASUM_TRANSPORT_GATHER_H_
#define ADASUM_TRANSPORT_GATHER_H_

#include <string>
#include <vector>

#include "cc/core/transport.h"

namespace adasum {

// Collective. Returns the texts in rank order.
std::vector<std::string> GatherTexts(Transport& transport, const std::string& mine);

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_GATHER_H_
