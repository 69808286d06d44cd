#include "cc/bootstrap/group.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <utility>
#include <vector>

#include "cc/bootstrap/closer.h"
#include "cc/bootstrap/members.h"
#include "cc/bootstrap/registry.h"
#include "cc/core/error.h"
#include "cc/transport/host_transport.h"
#include "cc/transport/mpi_transport.h"

namespace adasum {
namespace {

// Never exchanges anything: a leaf alone has no peers.
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
    auto waits = std::make_unique<WaitControl>();
    ReadTimeouts(&waits->timeouts);
    Topology topology;
    topology.instruction_set = WidestInstructionSet();
    communicator_ = std::make_unique<Communicator>(std::move(waits),
                                                   std::make_unique<SelfTransport>(), topology);
  }
  std::shared_ptr<Group> Split(std::optional<int> color, int, const std::string&) override {
    return color ? MakeSelfGroup() : nullptr;
  }
};

// TF_ADASUM_TIMELINE (adasumrun --timeline sets it) names where timelines go: one file for each
// rank and communicator, in the order in which the process made them.
std::unique_ptr<Timeline> TimelineOrNull(int world_rank) {
  static std::atomic<int> num_groups{0};
  const char* path = std::getenv("TF_ADASUM_TIMELINE");
  if (path == nullptr || *path == '\0') return nullptr;
  const int number = num_groups++;
  std::string part =
      std::string(path) + ".rank" + std::to_string(world_rank) + "." + std::to_string(number);
  return std::make_unique<Timeline>(part, world_rank, number);
}

class MpiGroup : public Group {
 public:
  MpiGroup(std::shared_ptr<MpiWorld> world, const std::vector<Member>& members)
      : world_(std::move(world)) {
    std::vector<MpiTransport::Member> receivers;
    for (const Member& member : members) receivers.push_back({member.world_rank, member.context});
    auto waits = std::make_unique<WaitControl>();
    ReadTimeouts(&waits->timeouts);
    auto mpi = std::make_unique<MpiTransport>(world_, std::move(receivers), *waits);
    Topology topology = TopologyOf(members, mpi->rank());
    waits->hot_pauses = HotPauses(topology.local_size);
    std::unique_ptr<Transport> transport =
        HostTransport::Make(std::move(mpi), HostsOf(members), *waits);
    communicator_ = std::make_unique<Communicator>(std::move(waits), std::move(transport), topology,
                                                   TimelineOrNull(world_->rank()));
  }

  std::shared_ptr<Group> Split(std::optional<int> color, int key,
                               const std::string& name) override {
    std::vector<Member> members = TellAll(color, key, name);
    if (!color) return nullptr;
    auto is_other = [&](const Member& member) { return member.color != color; };
    members.erase(std::remove_if(members.begin(), members.end(), is_other), members.end());
    std::stable_sort(members.begin(), members.end(),
                     [](const Member& a, const Member& b) { return a.key < b.key; });
    return Shared(std::make_unique<MpiGroup>(world_, members));
  }

 private:
  // A request like any other, so that it meets no data message on the way.
  std::vector<Member> TellAll(std::optional<int> color, int key, const std::string& name) {
    Member mine = ThisMember(world_->rank(), 0, key, color);
    std::optional<int> number;
    std::vector<Member> members;
    auto tell = [&](RequestContext& context) {
      try {
        if (color) mine.context = *(number = world_->contexts().Take());
      } catch (const Error& error) {
        mine.error = error.what();  // told to all ranks, as wrong settings are
      }
      members = GatherMembers(context.transport, mine);
    };
    communicator_->RunAndWait({RequestKey(name, "split"), tell, nullptr});
    try {
      // Out here: an error inside of a request would break the communicator.
      CheckMembers(members);
    } catch (const Error&) {
      // No group begins, so that no message can come under its number.
      if (number) world_->contexts().GiveBack(*number, std::make_unique<LastMessages>());
      throw;
    }
    return members;
  }

  std::shared_ptr<MpiWorld> world_;
};

}  // namespace

std::shared_ptr<Group> MakeSelfGroup() { return Shared(std::make_unique<SelfGroup>()); }

std::shared_ptr<Group> MakeMpiGroup(int fortran_handle) {
  std::shared_ptr<MpiWorld> world = MpiWorld::Duplicate(fortran_handle, &ShutdownAll);
  // The first one in a new world, and so the same on all ranks.
  const int context = world->contexts().Take();
  std::vector<MpiTransport::Member> everyone;
  for (int rank = 0; rank < world->size(); ++rank) everyone.push_back({rank, context});
  WaitControl waits;
  ReadTimeouts(&waits.timeouts);
  MpiTransport transport(world, everyone, waits);
  std::vector<Member> members = GatherMembers(transport, ThisMember(world->rank(), context, 0, 0));
  CheckMembers(members);
  return Shared(std::make_unique<MpiGroup>(world, members));
}

void EndMpi() { FinalizeMpi(); }

std::string MpiVersion() { return MpiLibraryVersion(); }

}  // namespace adasum
