#include "cc/bootstrap/members.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "cc/core/error.h"
#include "cc/transport/gather.h"

namespace adasum {
namespace {

// With its length ahead: a text may hold anything.
void WriteText(const std::string& text, std::ostream& out) {
  out << ' ' << text.size() << ' ' << text;
}

std::string ReadText(std::istream& in) {
  size_t size = 0;
  in >> size;
  std::string text(size, '\0');
  in.get();
  in.read(text.data(), static_cast<std::streamsize>(size));
  return text;
}

std::string Serialize(const Member& member) {
  std::ostringstream out;
  out << member.world_rank << ' ' << member.context << ' ' << member.key << ' '
      << (member.color ? std::to_string(*member.color) : "-") << ' ' << member.cores << ' '
      << static_cast<int>(member.instruction_set);
  WriteText(member.host, out);
  WriteText(member.error, out);
  return out.str();
}

Member Parse(const std::string& text) {
  std::istringstream in(text);
  Member member;
  std::string color;
  int instruction_set = 0;
  in >> member.world_rank >> member.context >> member.key >> color >> member.cores >>
      instruction_set;
  member.instruction_set = static_cast<InstructionSet>(instruction_set);
  member.host = ReadText(in);
  member.error = ReadText(in);
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

std::string HostName() {
  char text[256] = {};
  gethostname(text, sizeof(text) - 1);
  return text;
}

// How many cores this process may run on.
int NumCores() {
  cpu_set_t affinity;
  return sched_getaffinity(0, sizeof(affinity), &affinity) == 0 ? CPU_COUNT(&affinity) : 1;
}

}  // namespace

Member ThisMember(int world_rank, int context, int key, std::optional<int> color,
                  const CommunicatorOptions& options) {
  const std::string host = options.host.empty() ? HostName() : options.host;
  const int cores = options.cores == 0 ? NumCores() : options.cores;
  const InstructionSet set = std::min(options.instruction_set, WidestInstructionSet());
  return {world_rank, context, key, color, cores, set, host, ""};
}

std::vector<Member> GatherMembers(Transport& transport, const Member& mine) {
  std::vector<Member> members;
  for (const std::string& text : GatherTexts(transport, Serialize(mine))) {
    members.push_back(Parse(text));
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
  Topology topology{0, 0, 1, {}, members[rank].instruction_set};
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
