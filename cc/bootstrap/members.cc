#include "cc/bootstrap/members.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <map>

#include "cc/bootstrap/cores.h"
#include "cc/core/error.h"
#include "cc/transport/gather.h"
#include "cc/transport/peer_bytes.h"

namespace adasum {
namespace {

// What every rank has at least, where the ranks of a host share what each of them may run on.
int CoresOfEach(const std::vector<Member>& members, const HostRanks& hosts) {
  // More would wait for memory, not for arithmetic.
  constexpr int kMostOfUse = 8;
  int fewest = kMostOfUse;
  for (const std::vector<int>& ranks : hosts) {
    for (int rank : ranks) {
      fewest = std::min(fewest, members[rank].cores / static_cast<int>(ranks.size()));
    }
  }
  return std::max(fewest, 1);
}

std::string HostName() {
  char text[256] = {};
  gethostname(text, sizeof(text) - 1);
  return text;
}

}  // namespace

std::vector<std::string> ToTexts(const Member& member) {
  return {std::to_string(member.world_rank),
          std::to_string(member.context),
          std::to_string(member.key),
          member.color ? std::to_string(*member.color) : "",
          std::to_string(member.cores),
          std::to_string(static_cast<int>(member.instruction_set)),
          member.host,
          member.error};
}

Member MemberOf(const std::vector<std::string>& texts, int peer) {
  constexpr size_t kNumTexts = 8;
  constexpr int kLeast = std::numeric_limits<int>::min(), kMost = std::numeric_limits<int>::max();
  constexpr int kWidest = static_cast<int>(InstructionSet::kAvx512);
  if (texts.size() != kNumTexts) {
    RefuseBytes(peer, "the " + std::to_string(kNumTexts) + " texts of a member",
                std::to_string(texts.size()) + " texts");
  }
  auto number = [&](size_t i, int least, int most) {
    return static_cast<int>(ParseNumber(texts[i], least, most, peer));
  };
  const std::optional<int> color =
      texts[3].empty() ? std::nullopt : std::optional<int>(number(3, kLeast, kMost));
  return {number(0, 0, kMost),
          number(1, 0, kMost),
          number(2, kLeast, kMost),
          color,
          number(4, 1, kMost),
          static_cast<InstructionSet>(number(5, 0, kWidest)),
          texts[6],
          texts[7]};
}

Member ThisMember(int world_rank, int context, int key, std::optional<int> color,
                  const CommunicatorOptions& options) {
  const std::string host = options.host.empty() ? HostName() : options.host;
  const int cores = options.cores == 0 ? AvailableCores() : options.cores;
  const InstructionSet set = std::min(options.instruction_set, WidestInstructionSet());
  return {world_rank, context, key, color, cores, set, host, ""};
}

std::vector<Member> GatherMembers(Transport& transport, const Member& mine) {
  std::vector<Member> members;
  for (const auto& texts : GatherLists(transport, ToTexts(mine))) {
    members.push_back(MemberOf(texts, transport.WorldRank(static_cast<int>(members.size()))));
  }
  return members;
}

void CheckMembers(const std::vector<Member>& members) {
  for (const Member& member : members) {
    if (member.error.empty()) continue;
    throw Error(ErrorCode::kInvalidArgument,
                "rank " + std::to_string(member.world_rank) + ": " + member.error);
  }
}

Topology TopologyOf(const std::vector<Member>& members, int rank) {
  Topology topology;
  topology.local_size = 0;
  topology.hosts.clear();
  topology.instruction_set = members[rank].instruction_set;
  std::map<std::string, size_t> index_of;  // in topology.hosts
  for (size_t other = 0; other < members.size(); ++other) {
    auto [found, is_new] = index_of.insert({members[other].host, topology.hosts.size()});
    if (is_new) topology.hosts.emplace_back();
    topology.hosts[found->second].push_back(static_cast<int>(other));
    topology.instruction_set = std::min(topology.instruction_set, members[other].instruction_set);
    if (members[other].host != members[rank].host) continue;
    topology.local_rank += static_cast<int>(other) < rank;
    topology.local_size += 1;
  }
  topology.cores = CoresOfEach(members, topology.hosts);
  return topology;
}

std::vector<std::string> HostsOf(const std::vector<Member>& members) {
  std::vector<std::string> hosts;
  for (const Member& member : members) hosts.push_back(member.host);
  return hosts;
}

}  // namespace adasum
