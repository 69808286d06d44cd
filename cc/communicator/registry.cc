#include "cc/communicator/registry.h"

#include <map>
#include <mutex>
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
