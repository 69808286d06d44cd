// Every rank's texts at every rank, for what is small and rare: set-up and disagreement.
#ifndef ADASUM_TRANSPORT_GATHER_H_
#define ADASUM_TRANSPORT_GATHER_H_

#include <string>
#include <vector>

#include "cc/core/transport.h"

namespace adasum {

// Collective. Returns the texts in rank order.
std::vector<std::string> GatherTexts(Transport& transport, const std::string& mine);

// Collective. The same for lists of texts, of any lengths and of any bytes.
std::vector<std::vector<std::string>> GatherLists(Transport& transport,
                                                  const std::vector<std::string>& mine);

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_GATHER_H_
