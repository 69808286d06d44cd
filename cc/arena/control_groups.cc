#include "cc/arena/control_groups.h"

#include <cstdio>
#include <cstring>

namespace adasum {
namespace {

// Whether a list "cpu,cpuacct" names it.
bool IsNamed(const char* list, const char* controller) {
  const size_t length = std::strlen(controller);
  for (const char* name = list; name != nullptr; name = std::strchr(name, ',')) {
    if (*name == ',') ++name;
    const char end = std::strncmp(name, controller, length) == 0 ? name[length] : 'x';
    if (end == ',' || end == '\0') return true;
  }
  return false;
}

// The group's folder, and those around it up to the mount.
void VisitGroup(const char* mount, const char* group, bool is_version_2, VisitFolder visit,
                void* look) {
  char folder[1024];
  for (size_t length = std::strlen(group);;) {
    const int written =
        std::snprintf(folder, sizeof(folder), "%s%.*s", mount, static_cast<int>(length), group);
    if (written > 0 && written < static_cast<int>(sizeof(folder)))
      visit(folder, is_version_2, look);
    if (length == 0) return;
    do {
      --length;
    } while (length > 0 && group[length] != '/');
  }
}

}  // namespace

void VisitControlGroups(const char* root, const char* controller, VisitFolder visit, void* look) {
  char path[1024], groups[4096];
  std::snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
  if (!ReadText(path, groups)) return;
  char* rest = nullptr;
  for (char* line = strtok_r(groups, "\n", &rest); line != nullptr;
       line = strtok_r(nullptr, "\n", &rest)) {
    // number:controllers:group
    char* controllers = std::strchr(line, ':');
    char* group = controllers == nullptr ? nullptr : std::strchr(controllers + 1, ':');
    if (group == nullptr) continue;
    *group++ = '\0';
    const bool is_version_2 = *++controllers == '\0';
    if (!is_version_2 && !IsNamed(controllers, controller)) continue;
    std::snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s%s", root, is_version_2 ? "" : "/",
                  is_version_2 ? "" : controller);
    VisitGroup(path, group, is_version_2, visit, look);
  }
}

}  // namespace adasum
