// What the ranks of a group tell each other when it is made, and where that puts each of them.
#ifndef ADASUM_BOOTSTRAP_MEMBERS_H_
#define ADASUM_BOOTSTRAP_MEMBERS_H_

#include <optional>
#include <string>
#include <vector>

#include "cc/core/transport.h"
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

// The host's name; TF_ADASUM_HOST overrides it, for hosts that share one, and for network
// namespaces.
std::string HostName();

// How many cores this process may run on; TF_ADASUM_CORES overrides it, for hosts whose cores are
// wanted by others. Throws InvalidArgument unless that is a positive number.
int NumCores();

// What this process tells of itself; context, key and color are the caller's. Settings that
// can't be read are no exception here: the others are told, so that all fail alike.
Member ThisMember(int world_rank, int context, int key, std::optional<int> color);

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
