// The control groups of this process (Linux' cgroups, version 1 and 2), by which containers and
// schedulers limit it. Without malloc: the preloaded library asks before there is one.
#ifndef ADASUM_ARENA_CONTROL_GROUPS_H_
#define ADASUM_ARENA_CONTROL_GROUPS_H_

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace adasum {

// Reads the beginning of a small file; false if there is none.
template <size_t kSize>
bool ReadText(const char* path, char (&text)[kSize]) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t length = read(fd, text, kSize - 1);
  close(fd);
  text[std::max<ssize_t>(length, 0)] = '\0';
  return length > 0;
}

// A folder in which a group's limits stand; `look` is what VisitControlGroups was called with.
using VisitFolder = void (*)(const char* folder, bool is_version_2, void* look);

// As below.
void VisitControlGroups(const char* root, const char* controller, VisitFolder visit, void* look);

// Calls look(folder, is_version_2) for the group of a controller ("memory", "cpu") that this
// process is in, and for those around it. In a container its own may stand at the mount's top.
// `root` comes before all paths; it is empty but in tests.
template <typename Look>
void VisitControlGroups(const char* root, const char* controller, Look look) {
  VisitControlGroups(
      root, controller,
      [](const char* folder, bool is_version_2, void* looks) {
        (*static_cast<Look*>(looks))(folder, is_version_2);
      },
      &look);
}

}  // namespace adasum

#endif  // ADASUM_ARENA_CONTROL_GROUPS_H_
