// What the ranks of a group tell each other when it is made, and where that puts each of them.
#ifndef ADASUM_BOOTSTRAP_MEMBERS_H_
#define ADASUM_BOOTSTRAP_MEMBERS_H_

#include <optional>
#include <string>
#include <vector>

#include "cc/core/transport.h"
#include "cc/engine/communicator_options.h"
#include "cc/engine/topology.h"

namespace adasum {

struct Member {
  int world_rank;
  int context;  // under which it will receive in the new group (mpi_contexts.h)
  int key;
  std::optional<int> color;
  int cores;                       // of its host, that it may run on
  InstructionSet instruction_set;  // the widest that it may use
  std::string host;
  std::string error;  // what is wrong with its settings; empty where nothing is
};

// What this process tells of itself; context, key and color are the caller's.
Member ThisMember(int world_rank, int context, int key, std::optional<int> color,
                  const CommunicatorOptions& options);

std::vector<std::string> ToTexts(const Member& member);
// Throws Internal for texts that ToTexts does not make. They came from rank `peer`.
Member MemberOf(const std::vector<std::string>& texts, int peer);

// Tells `mine` to all ranks of `transport` and returns what each of them told; collective.
std::vector<Member> GatherMembers(Transport& transport, const Member& mine);

// Throws InvalidArgument, the same on all ranks, where a member's settings are wrong.
void CheckMembers(const std::vector<Member>& members);

// Where member number `rank` sits among the others.
Topology TopologyOf(const std::vector<Member>& members, int rank);

// The host of every member.
std::vector<std::string> HostsOf(const std::vector<Member>& members);

}  // namespace adasum

#endif  // ADASUM_BOOTSTRAP_MEMBERS_H_
