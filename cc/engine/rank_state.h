// What a rank tells the others of its pending requests, where the first ones differ.
#ifndef ADASUM_ENGINE_RANK_STATE_H_
#define ADASUM_ENGINE_RANK_STATE_H_

#include <string>
#include <vector>

#include "cc/engine/negotiation.h"

namespace adasum {

struct RankState {
  bool has_expired;
  std::vector<RequestKey> pending;  // one at least, oldest first
};

std::vector<std::string> ToTexts(const RankState& state);
// Throws Internal for texts that ToTexts does not make. They came from rank `peer`.
RankState RankStateOf(const std::vector<std::string>& texts, int peer);

}  // namespace adasum

#endif  // ADASUM_ENGINE_RANK_STATE_H_
