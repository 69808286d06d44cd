#include "cc/engine/rank_state.h"

#include "cc/transport/peer_bytes.h"

namespace adasum {
namespace {

constexpr char kExpired[] = "expired";

}  // namespace

std::vector<std::string> ToTexts(const RankState& state) {
  std::vector<std::string> texts{state.has_expired ? kExpired : ""};
  for (const RequestKey& key : state.pending) {
    texts.push_back(key.name());
    texts.push_back(key.signature());
  }
  return texts;
}

RankState RankStateOf(const std::vector<std::string>& texts, int peer) {
  if (texts.size() < 3 || texts.size() % 2 == 0) {
    RefuseBytes(peer, "pairs of names and signatures", std::to_string(texts.size()) + " texts");
  }
  RankState state{!texts[0].empty(), {}};
  for (size_t i = 1; i < texts.size(); i += 2) state.pending.emplace_back(texts[i], texts[i + 1]);
  return state;
}

}  // namespace adasum
