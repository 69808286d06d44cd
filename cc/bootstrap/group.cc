#include "cc/bootstrap/group.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "cc/bootstrap/closer.h"
#include "cc/bootstrap/members.h"
#include "cc/bootstrap/registry.h"
#include "cc/core/error.h"
#include "cc/transport/host_transport.h"
#include "cc/transport/mpi_end.h"
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
  explicit SelfGroup(const CommunicatorOptions& options) : Group(options) {
    world_ranks_ = {0};
    auto waits = std::make_unique<WaitControl>();
    waits->timeouts = options.timeouts;
    Topology topology;
    topology.instruction_set = std::min(options.instruction_set, WidestInstructionSet());
    communicator_ = std::make_unique<Communicator>(std::move(waits),
                                                   std::make_unique<SelfTransport>(), topology);
  }
  std::shared_ptr<Group> Split(std::optional<int> color, int, const std::string&,
                               const GivenOptions& given) override {
    const auto options = CommunicatorOptions::FromEnvironment(given);
    return color ? Shared(std::make_unique<SelfGroup>(options)) : nullptr;
  }
};

// One file for each rank and communicator, in the order in which the process made them.
std::unique_ptr<Timeline> TimelineOrNull(const std::string& path, int world_rank) {
  static std::atomic<int> num_groups{0};
  if (path.empty()) return nullptr;
  const int number = num_groups++;
  const std::string part =
      path + ".rank" + std::to_string(world_rank) + "." + std::to_string(number);
  return std::make_unique<Timeline>(part, world_rank, number);
}

// What a new group is made with. Settings that can't be read are no exception: the other ranks are
// told of the error, so that all fail alike.
struct Settings {
  explicit Settings(const GivenOptions& given = {}) {
    try {
      options = CommunicatorOptions::FromEnvironment(given);
    } catch (const Error& wrong) {
      error = wrong.what();
    }
  }

  // This process, with what is wrong with its settings.
  Member Self(int world_rank, int context, int key, std::optional<int> color) const {
    Member self = ThisMember(world_rank, context, key, color, options);
    self.error = error;
    return self;
  }

  CommunicatorOptions options;
  std::string error;
};

class MpiGroup : public Group {
 public:
  MpiGroup(std::shared_ptr<MpiWorld> world, const std::vector<Member>& members,
           const CommunicatorOptions& options)
      : Group(options), world_(std::move(world)) {
    const auto self = std::find_if(members.begin(), members.end(), [&](const Member& member) {
      return member.world_rank == world_->rank();
    });
    std::vector<MpiTransport::Member> receivers;
    for (const Member& member : members) {
      receivers.push_back({member.world_rank, member.context, member.host == self->host});
      world_ranks_.push_back(member.world_rank);
    }
    number_at_first_ = members.front().context;
    auto waits = std::make_unique<WaitControl>();
    waits->timeouts = options.timeouts;
    auto mpi =
        std::make_unique<MpiTransport>(world_, std::move(receivers), *waits, options.cuda.mpi);
    Topology topology = TopologyOf(members, mpi->rank());
    topology.tuning = options.tuning;
    waits->hot_pauses = HotPauses(topology.local_size);
    std::unique_ptr<Transport> transport =
        HostTransport::Make(std::move(mpi), HostsOf(members), *waits,
                            {options.shared_memory, options.zero_copy, options.cross_memory});
    communicator_ =
        std::make_unique<Communicator>(std::move(waits), std::move(transport), topology,
                                       TimelineOrNull(options.timeline, world_->rank()));
  }

  std::shared_ptr<Group> Split(std::optional<int> color, int key, const std::string& name,
                               const GivenOptions& given) override {
    const Settings settings(given);
    std::vector<Member> members = TellAll(settings.Self(world_->rank(), 0, key, color), name);
    if (!color) return nullptr;
    auto is_other = [&](const Member& member) { return member.color != color; };
    members.erase(std::remove_if(members.begin(), members.end(), is_other), members.end());
    std::stable_sort(members.begin(), members.end(),
                     [](const Member& a, const Member& b) { return a.key < b.key; });
    return Shared(std::make_unique<MpiGroup>(world_, members, settings.options));
  }

 private:
  // A request like any other, so that it meets no data message on the way.
  std::vector<Member> TellAll(Member mine, const std::string& name) {
    std::optional<int> number;
    std::vector<Member> members;
    auto tell = [&](RequestContext& context) {
      try {
        if (mine.color) mine.context = *(number = world_->contexts().Take());
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

std::shared_ptr<Group> MakeSelfGroup(const GivenOptions& given) {
  return Shared(std::make_unique<SelfGroup>(CommunicatorOptions::FromEnvironment(given)));
}

std::shared_ptr<Group> MakeMpiGroup(int fortran_handle) {
  std::shared_ptr<MpiWorld> world = MpiWorld::Duplicate(fortran_handle, &ShutdownAll);
  // The first one in a new world, and so the same on all ranks.
  const int context = world->contexts().Take();
  std::vector<MpiTransport::Member> everyone;
  for (int rank = 0; rank < world->size(); ++rank) everyone.push_back({rank, context});
  const Settings settings;
  WaitControl waits;
  waits.timeouts = settings.options.timeouts;
  MpiTransport transport(world, everyone, waits);
  std::vector<Member> members;
  try {
    members = GatherMembers(transport, settings.Self(world->rank(), context, 0, 0));
  } catch (...) {
    transport.LeaveAfterException();
    throw;
  }
  CheckMembers(members);
  return Shared(std::make_unique<MpiGroup>(world, members, settings.options));
}

void EndMpi() { FinalizeMpi(); }

std::string MpiVersion() { return MpiLibraryVersion(); }

}  // namespace adasum
