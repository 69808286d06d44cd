// The ranks of a communicator, and how they come together: a process alone, all ranks of an MPI
// communicator, or a part of another group.
#ifndef ADASUM_BOOTSTRAP_GROUP_H_
#define ADASUM_BOOTSTRAP_GROUP_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/bootstrap/device_state.h"
#include "cc/engine/communicator.h"
#include "cc/engine/communicator_options.h"

namespace adasum {

// The ranks of a communicator and what is needed to make others from them.
class Group {
 public:
  virtual ~Group() = default;
  Communicator& communicator() { return *communicator_; }
  // What the world calls its ranks, in their order.
  const std::vector<int>& world_ranks() const { return world_ranks_; }
  // With the first of world_ranks a name of the group that is the same on all its ranks.
  int number_at_first() const { return number_at_first_; }

  // What the group keeps on device number `device`; make(device, options) is called at its first
  // use. Any thread may call it.
  using MakeDeviceState = std::shared_ptr<DeviceState> (*)(int, const CudaOptions&);
  std::shared_ptr<DeviceState> StateOn(int device, MakeDeviceState make) {
    std::lock_guard<std::mutex> lock(device_states_mutex_);
    std::shared_ptr<DeviceState>& state = device_states_[device];
    if (!state) state = make(device, options_.cuda);
    return state;
  }

  // Groups ranks of equal color, ordered by key and then by rank; null for a rank without color.
  // Collective and blocking. Threads that split one communicator at the same time need names of
  // their own. The options are those of the environment as it is now, but for those given.
  virtual std::shared_ptr<Group> Split(std::optional<int> color, int key, const std::string& name,
                                       const GivenOptions& given = {}) = 0;

 protected:
  explicit Group(CommunicatorOptions options) : options_(std::move(options)) {}

  const CommunicatorOptions options_;
  std::unique_ptr<Communicator> communicator_;
  std::vector<int> world_ranks_;
  int number_at_first_ = 0;

 private:
  std::mutex device_states_mutex_;
  std::map<int, std::shared_ptr<DeviceState>> device_states_;
};

// A world of one process, without MPI. Options as for Split.
std::shared_ptr<Group> MakeSelfGroup(const GivenOptions& given = {});

// All ranks of an MPI communicator, named by its Fortran handle; collective. The options are those
// of the environment.
std::shared_ptr<Group> MakeMpiGroup(int fortran_handle);

// Ends MPI, at the end of the program; not in a forked child.
void EndMpi();

// The first line of what the MPI library says of itself.
std::string MpiVersion();

}  // namespace adasum

#endif  // ADASUM_BOOTSTRAP_GROUP_H_
