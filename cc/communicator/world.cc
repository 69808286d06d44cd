#include "cc/communicator/world.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "cc/core/error.h"
#include "cc/transport/gather.h"
#include "cc/transport/host_transport.h"
#include "cc/transport/mpi_transport.h"
#include "cc/transport/thread_transport.h"

namespace adasum {
namespace {

// --- A process alone ----------------------------------------------------------------------------

// Never exchanges anything: traversals of one leaf have no steps.
class SelfTransport : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void SendRecv(const Send&, const Recv&) override {
    throw Error(ErrorCode::kInternal, "A process alone has no peers.");
  }
};

class SelfGroup : public Group {
 public:
  SelfGroup() {
    auto limits = std::make_unique<WaitLimits>();
    ReadWaitLimits(limits.get());
    communicator_ = std::make_unique<Communicator>(std::move(limits),
                                                   std::make_unique<SelfTransport>(), Placement{});
  }
  std::shared_ptr<Group> Split(std::optional<int> color, int) override {
    return color ? std::make_shared<SelfGroup>() : nullptr;
  }
};

// --- Processes under MPI ------------------------------------------------------------------------

// What ranks tell each other when a group is made.
struct Member {
  int world_rank;
  int next_context;
  int key;
  std::optional<int> color;
  int cores;  // of its host, that it may run on
  std::string host;
};

// TF_ADASUM_HOST overrides the name, for hosts that share one, and for network namespaces.
std::string HostName() {
  const char* name = std::getenv("TF_ADASUM_HOST");
  if (name != nullptr && *name != '\0') return name;
  char text[256] = {};
  gethostname(text, sizeof(text) - 1);
  return text;
}

// TF_ADASUM_CORES overrides it, for hosts whose cores are wanted by others.
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

// About 40 microseconds where each rank has a core to itself; on shared cores the awaited rank
// may need this very core.
int HotPauses(const Placement& placement) {
  int num_cores = static_cast<int>(std::thread::hardware_concurrency());
  return placement.local_size <= num_cores ? 1000 : 16;
}

// TF_ADASUM_TIMELINE (adasumrun --timeline sets it) names where timelines go: one file for each
// rank and communicator, `context` telling the communicators of a rank apart.
std::unique_ptr<Timeline> TimelineOrNull(int world_rank, int context) {
  const char* path = std::getenv("TF_ADASUM_TIMELINE");
  if (path == nullptr || *path == '\0') return nullptr;
  std::string part =
      std::string(path) + ".rank" + std::to_string(world_rank) + "." + std::to_string(context);
  return std::make_unique<Timeline>(part, world_rank, context);
}

// Greater than any context this process has been part of.
std::atomic<int> next_context{1};

class MpiGroup : public Group {
 public:
  MpiGroup(std::shared_ptr<MpiWorld> world, const std::vector<Member>& members, int context)
      : world_(std::move(world)) {
    std::vector<int> world_ranks;
    for (const Member& member : members) world_ranks.push_back(member.world_rank);
    auto limits = std::make_unique<WaitLimits>();
    ReadWaitLimits(limits.get());
    auto mpi = std::make_unique<MpiTransport>(world_, world_ranks, context, *limits);
    Placement placement = PlacementOf(members, mpi->rank());
    limits->hot_pauses = HotPauses(placement);
    std::unique_ptr<Transport> transport =
        HostTransport::Make(std::move(mpi), HostsOf(members), *limits);
    communicator_ =
        std::make_unique<Communicator>(std::move(limits), std::move(transport), placement,
                                       TimelineOrNull(world_->rank(), context));
  }

  std::shared_ptr<Group> Split(std::optional<int> color, int key) override {
    std::vector<Member> members = GatherMembers(color, key);
    int context = 0;
    for (const Member& member : members) context = std::max(context, member.next_context);
    next_context = context + 1;
    if (!color) return nullptr;
    auto is_other = [&](const Member& member) { return member.color != color; };
    members.erase(std::remove_if(members.begin(), members.end(), is_other), members.end());
    std::stable_sort(members.begin(), members.end(),
                     [](const Member& a, const Member& b) { return a.key < b.key; });
    return std::make_shared<MpiGroup>(world_, members, context);
  }

 private:
  // A request like any other, so that it meets no data message on the way.
  std::vector<Member> GatherMembers(std::optional<int> color, int key) {
    Member mine{world_->rank(), next_context, key, color, NumCores(), HostName()};
    std::vector<Member> members;
    communicator_->RunAndWait({Intent("split", "split"),
                               [&](Workplace& workplace) {
                                 for (const std::string& text :
                                      GatherTexts(workplace.transport, Serialize(mine))) {
                                   members.push_back(Parse(text));
                                 }
                               },
                               nullptr});
    return members;
  }

  std::shared_ptr<MpiWorld> world_;
};

// --- Registry -----------------------------------------------------------------------------------

struct Registry {
  std::mutex mutex;
  int64_t next_id = 0;
  std::map<int64_t, std::shared_ptr<Group>> groups;
};

Registry& TheRegistry() {
  // Never destroyed: a communication thread may outlast static destructors.
  static Registry* registry = new Registry;
  return *registry;
}

}  // namespace

std::shared_ptr<Group> MakeSelfGroup() { return std::make_shared<SelfGroup>(); }

std::shared_ptr<Group> MakeMpiGroup(int fortran_handle) {
  std::shared_ptr<MpiWorld> world = MpiWorld::Duplicate(fortran_handle);
  std::vector<int> everyone(world->size());
  for (int rank = 0; rank < world->size(); ++rank) everyone[rank] = rank;
  WaitLimits limits;
  ReadWaitLimits(&limits);
  MpiTransport transport(world, everyone, 0, limits);
  std::vector<Member> members;
  Member mine{world->rank(), 1, 0, 0, NumCores(), HostName()};
  for (const std::string& text : GatherTexts(transport, Serialize(mine))) {
    members.push_back(Parse(text));
  }
  return std::make_shared<MpiGroup>(world, members, 0);
}

std::string MpiVersion() { return MpiLibraryVersion(); }

int64_t Register(std::shared_ptr<Group> group) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.groups[registry.next_id] = std::move(group);
  return registry.next_id++;
}

std::shared_ptr<Group> FindGroup(int64_t id) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  auto found = registry.groups.find(id);
  if (found != registry.groups.end()) return found->second;
  if (id >= 0 && id < registry.next_id) {
    throw Error(ErrorCode::kUnavailable,
                "Communicator " + std::to_string(id) + " was closed; use one that is open.");
  }
  throw Error(ErrorCode::kInvalidArgument,
              "Expected the id of an open communicator. Received: " + std::to_string(id));
}

void Unregister(int64_t id) {
  std::shared_ptr<Group> group;
  {
    Registry& registry = TheRegistry();
    std::lock_guard<std::mutex> lock(registry.mutex);
    auto found = registry.groups.find(id);
    if (found == registry.groups.end()) return;
    group = std::move(found->second);
    registry.groups.erase(found);
  }
  group->communicator().Close();
}

void CloseAll() {
  for (;;) {
    int64_t id;
    {
      Registry& registry = TheRegistry();
      std::lock_guard<std::mutex> lock(registry.mutex);
      if (registry.groups.empty()) return;
      id = registry.groups.begin()->first;
    }
    Unregister(id);
  }
}

}  // namespace adasum
