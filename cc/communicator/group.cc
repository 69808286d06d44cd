#include "cc/communicator/group.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <utility>
#include <vector>

#include "cc/communicator/members.h"
#include "cc/core/error.h"
#include "cc/transport/host_transport.h"
#include "cc/transport/mpi_transport.h"

namespace adasum {
namespace {

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
    Placement placement;
    placement.instruction_set = WidestInstructionSet();
    communicator_ = std::make_unique<Communicator>(std::move(limits),
                                                   std::make_unique<SelfTransport>(), placement);
  }
  std::shared_ptr<Group> Split(std::optional<int> color, int) override {
    return color ? std::make_shared<SelfGroup>() : nullptr;
  }
};

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
    limits->hot_pauses = HotPauses(placement.local_size);
    std::unique_ptr<Transport> transport =
        HostTransport::Make(std::move(mpi), HostsOf(members), *limits);
    communicator_ =
        std::make_unique<Communicator>(std::move(limits), std::move(transport), placement,
                                       TimelineOrNull(world_->rank(), context));
  }

  std::shared_ptr<Group> Split(std::optional<int> color, int key) override {
    std::vector<Member> members = TellAll(color, key);
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
  std::vector<Member> TellAll(std::optional<int> color, int key) {
    const Member mine = ThisMember(world_->rank(), next_context, key, color);
    std::vector<Member> members;
    communicator_->RunAndWait(
        {Intent("split", "split"),
         [&](Workplace& workplace) { members = GatherMembers(workplace.transport, mine); },
         nullptr});
    // Out here: an error inside of a request would break the communicator.
    CheckMembers(members);
    return members;
  }

  std::shared_ptr<MpiWorld> world_;
};

}  // namespace

std::shared_ptr<Group> MakeSelfGroup() { return std::make_shared<SelfGroup>(); }

std::shared_ptr<Group> MakeMpiGroup(int fortran_handle) {
  std::shared_ptr<MpiWorld> world = MpiWorld::Duplicate(fortran_handle);
  std::vector<int> everyone(world->size());
  for (int rank = 0; rank < world->size(); ++rank) everyone[rank] = rank;
  WaitLimits limits;
  ReadWaitLimits(&limits);
  MpiTransport transport(world, everyone, 0, limits);
  std::vector<Member> members = GatherMembers(transport, ThisMember(world->rank(), 1, 0, 0));
  CheckMembers(members);
  return std::make_shared<MpiGroup>(world, members, 0);
}

std::string MpiVersion() { return MpiLibraryVersion(); }

}  // namespace adasum
