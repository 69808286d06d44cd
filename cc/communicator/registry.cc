#include "cc/communicator/registry.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "cc/core/error.h"

namespace adasum {
namespace {

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

// Takes a group out, the oldest one if no id is given; null if it is not there.
std::shared_ptr<Group> Take(std::optional<int64_t> id) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  auto found = id ? registry.groups.find(*id) : registry.groups.begin();
  if (found == registry.groups.end()) return nullptr;
  std::shared_ptr<Group> group = std::move(found->second);
  registry.groups.erase(found);
  return group;
}

}  // namespace

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
  std::shared_ptr<Group> group = Take(id);
  if (group) group->communicator().Close();
}

void LeaveAll() {
  while (std::shared_ptr<Group> group = Take(std::nullopt)) group->communicator().Leave();
}

}  // namespace adasum
