#include "cc/reductions/reduction.h"

#include <map>

#include "cc/core/error.h"

namespace adasum {
namespace {

// Filled while the library is loaded, read-only afterwards.
std::map<std::string, std::unique_ptr<Reduction>>& Registry() {
  static std::map<std::string, std::unique_ptr<Reduction>> registry;
  return registry;
}

}  // namespace

RegisterReduction::RegisterReduction(std::unique_ptr<Reduction> reduction) {
  std::string name = reduction->name();
  Registry()[name] = std::move(reduction);
}

std::vector<std::string> ReductionNames() {
  std::vector<std::string> names;
  for (const auto& entry : Registry()) names.push_back(entry.first);
  return names;
}

const Reduction& FindReduction(const std::string& name) {
  auto found = Registry().find(name);
  if (found != Registry().end()) return *found->second;
  std::string names;
  for (const std::string& known : ReductionNames()) names += (names.empty() ? "" : ", ") + known;
  throw Error(ErrorCode::kInvalidArgument,
              "Expected a reduction among " + names + ". Received: " + name);
}

}  // namespace adasum
