#include "cc/bootstrap/members.h"

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

Member ThisMember(int world_rank, int context, int key, std::optional<int> color) {
  Member mine{world_rank, context, key, color, 1, InstructionSet::kBaseline, HostName(), ""};
  try {
    mine.cores = NumCores();
    mine.instruction_set = WidestInstructionSet();
  } catch (const Error& error) {
    mine.error = error.what();
  }
  return mine;
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
