#include "cc/bootstrap/registry.h"

#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cc/bootstrap/closer.h"
#include "cc/core/error.h"
#include "cc/core/forks.h"

namespace adasum {
namespace {

struct Entry {
  std::shared_ptr<Group> registered;  // null once the id was taken back
  std::weak_ptr<Group> group;         // which others may have longer
};

struct Registry {
  const HomeProcess home{};
  std::atomic<int> rank{0};  // of this process, when a group was last registered
  std::mutex mutex;
  int64_t next_id = 0;
  std::map<int64_t, Entry> entries;
};

Registry& TheRegistry() {
  // Never destroyed: a communication thread may outlast static destructors.
  static Registry* registry = new Registry;
  return *registry;
}

// Takes an id back and returns its group; null if that was done before.
std::shared_ptr<Group> Take(int64_t id) {
  Registry& registry = TheRegistry();
  if (!registry.home.IsHere()) return nullptr;
  std::lock_guard<std::mutex> lock(registry.mutex);
  const auto found = registry.entries.find(id);
  return found == registry.entries.end() ? nullptr : std::move(found->second.registered);
}

}  // namespace

int64_t Register(std::shared_ptr<Group> group) {
  Registry& registry = TheRegistry();
  const int rank = group->communicator().world_rank();
  registry.home.Check(rank);
  registry.rank = rank;
  std::lock_guard<std::mutex> lock(registry.mutex);
  for (auto entry = registry.entries.begin(); entry != registry.entries.end();) {
    entry = entry->second.group.expired() ? registry.entries.erase(entry) : std::next(entry);
  }
  registry.entries[registry.next_id] = {group, group};
  return registry.next_id++;
}

std::shared_ptr<Group> FindGroup(int64_t id) {
  Registry& registry = TheRegistry();
  registry.home.Check(registry.rank);
  std::lock_guard<std::mutex> lock(registry.mutex);
  auto found = registry.entries.find(id);
  if (found != registry.entries.end() && found->second.registered) return found->second.registered;
  if (id >= 0 && id < registry.next_id) {
    throw Error(ErrorCode::kUnavailable, "Expected an open communicator. Received: communicator " +
                                             std::to_string(id) +
                                             ", which was closed. Make another one by split().");
  }
  throw Error(ErrorCode::kInvalidArgument,
              "Expected the id of an open communicator. Received: " + std::to_string(id));
}

std::map<int64_t, std::shared_ptr<Group>> OpenGroups() {
  Registry& registry = TheRegistry();
  if (!registry.home.IsHere()) return {};
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::map<int64_t, std::shared_ptr<Group>> groups;
  for (const auto& [id, entry] : registry.entries) {
    if (std::shared_ptr<Group> group = entry.group.lock()) groups[id] = std::move(group);
  }
  return groups;
}

void Unregister(int64_t id) {
  std::shared_ptr<Group> group = Take(id);
  if (group) group->communicator().Close();
}

void Release(int64_t id) { Take(id); }

void ShutdownAll() {
  Registry& registry = TheRegistry();
  if (!registry.home.IsHere()) return;
  std::vector<std::shared_ptr<Group>> groups;
  {
    std::lock_guard<std::mutex> lock(registry.mutex);
    for (auto& [id, entry] : registry.entries) {
      if (std::shared_ptr<Group> group = entry.group.lock()) groups.push_back(std::move(group));
      entry.registered.reset();
    }
  }
  for (const std::shared_ptr<Group>& group : groups) group->communicator().Shutdown();
  groups.clear();
  AwaitClosed();
}

}  // namespace adasum
