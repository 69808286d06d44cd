#include "cc/communicator/members.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "cc/core/error.h"
#include "cc/transport/gather.h"

namespace adasum {
namespace {

std::string Serialize(const Member& member) {
  std::ostringstream out;
  out << member.world_rank << ' ' << member.next_context << ' ' << member.key << ' '
      << (member.color ? std::to_string(*member.color) : "-") << ' ' << member.cores << ' '
      << member.host;
  return out.str();
}

Member Parse(const std::string& text) {
  std::istringstream in(text);
  Member member;
  std::string color;
  in >> member.world_rank >> member.next_context >> member.key >> color >> member.cores >>
      member.host;
  if (color != "-") member.color = std::stoi(color);
  return member;
}

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

}  // namespace

std::string HostName() {
  const char* name = std::getenv("TF_ADASUM_HOST");
  if (name != nullptr && *name != '\0') return name;
  char text[256] = {};
  gethostname(text, sizeof(text) - 1);
  return text;
}

int NumCores() {
  const char* text = std::getenv("TF_ADASUM_CORES");
  if (text != nullptr && *text != '\0') {
    int cores = std::atoi(text);
    if (cores >= 1) return cores;
    throw Error(ErrorCode::kInvalidArgument,
                std::string("Expected TF_ADASUM_CORES to be a positive number. Received: ") + text);
  }
  cpu_set_t affinity;
  return sched_getaffinity(0, sizeof(affinity), &affinity) == 0 ? CPU_COUNT(&affinity) : 1;
}

std::vector<Member> GatherMembers(Transport& transport, const Member& mine) {
  std::vector<Member> members;
  for (const std::string& text : GatherTexts(transport, Serialize(mine))) {
    members.push_back(Parse(text));
  }
  return members;
}

Placement PlacementOf(const std::vector<Member>& members, int rank) {
  Placement placement{0, 0, 1, {}};
  std::map<std::string, size_t> index_of;  // in placement.hosts
  for (size_t other = 0; other < members.size(); ++other) {
    auto [found, is_new] = index_of.insert({members[other].host, placement.hosts.size()});
    if (is_new) placement.hosts.emplace_back();
    placement.hosts[found->second].push_back(static_cast<int>(other));
    if (members[other].host != members[rank].host) continue;
    placement.local_rank += static_cast<int>(other) < rank;
    placement.local_size += 1;
  }
  placement.cores = CoresOfEach(members, placement.hosts);
  return placement;
}

std::vector<std::string> HostsOf(const std::vector<Member>& members) {
  std::vector<std::string> hosts;
  for (const Member& member : members) hosts.push_back(member.host);
  return hosts;
}

}  // namespace adasum
