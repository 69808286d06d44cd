#include "cc/arena/heap_size.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace adasum {
namespace {

constexpr int64_t kLeastBytes = 16 << 20;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// Reads the beginning of a small file, without malloc; false if there is none.
template <size_t kSize>
bool ReadText(const char* path, char (&text)[kSize]) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t length = read(fd, text, kSize - 1);
  close(fd);
  text[std::max<ssize_t>(length, 0)] = '\0';
  return length > 0;
}

// A limit of a control group; "max" is none.
int64_t LimitIn(const char* path) {
  char text[32];
  if (!ReadText(path, text) || text[0] < '0' || text[0] > '9') return kNoLimit;
  errno = 0;
  const int64_t value = std::strtoll(text, nullptr, 10);
  return errno != 0 ? kNoLimit : value;
}

// The least limit of a group and those around it. In a container its own may stand at the mount's
// top.
int64_t LimitOfGroup(const char* root, const char* mount, const char* group, const char* file) {
  char path[1024];
  int64_t least = kNoLimit;
  for (size_t length = std::strlen(group);;) {
    const int written = std::snprintf(path, sizeof(path), "%s%s%.*s/%s", root, mount,
                                      static_cast<int>(length), group, file);
    if (written > 0 && written < static_cast<int>(sizeof(path))) {
      least = std::min(least, LimitIn(path));
    }
    if (length == 0) return least;
    do {
      --length;
    } while (length > 0 && group[length] != '/');
  }
}

int64_t LimitOf(__rlimit_resource resource) {
  rlimit limit;
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
  return static_cast<int64_t>(std::min<uint64_t>(limit.rlim_cur, kNoLimit));
}

// Where memory must be promised before it is used, a page of a sparse file that the system can't
// back ends the process.
bool IsMemoryPromised() {
  char text[8];
  return ReadText("/proc/sys/vm/overcommit_memory", text) && text[0] == '2';
}

}  // namespace

bool ParseHeapBytes(const char* text, int64_t* num_bytes) {
  if (std::strcmp(text, "0") == 0 || std::strcmp(text, "1") == 0) {
    *num_bytes = text[0] == '0' ? 0 : -1;
    return true;
  }
  if (text[0] < '0' || text[0] > '9') return false;
  char* end = nullptr;
  errno = 0;
  const int64_t value = std::strtoll(text, &end, 10);
  const int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
  if (shift > 0) ++end;
  if (errno != 0 || *end != '\0' || value > kNoLimit >> shift) return false;
  *num_bytes = value << shift;
  return *num_bytes >= kLeastBytes;
}

int64_t LimitOfControlGroups(const char* root) {
  char path[1024], groups[4096];
  std::snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
  if (!ReadText(path, groups)) return kNoLimit;
  int64_t least = kNoLimit;
  char* rest = nullptr;
  for (char* line = strtok_r(groups, "\n", &rest); line != nullptr;
       line = strtok_r(nullptr, "\n", &rest)) {
    // number:controllers:group
    char* controllers = std::strchr(line, ':');
    char* group = controllers == nullptr ? nullptr : std::strchr(controllers + 1, ':');
    if (group == nullptr) continue;
    *group++ = '\0';
    if (controllers[1] == '\0') {
      least = std::min(least, LimitOfGroup(root, "/sys/fs/cgroup", group, "memory.max"));
    } else if (std::strstr(controllers, "memory") != nullptr) {
      least = std::min(least,
                       LimitOfGroup(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

int64_t HeapBytes(const char* setting) {
  int64_t num_bytes = -1;
  if (setting != nullptr && *setting != '\0' && !ParseHeapBytes(setting, &num_bytes)) return 0;
  if (num_bytes == 0 || IsMemoryPromised()) return 0;
  if (num_bytes < 0) {
    const int64_t physical = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    num_bytes = std::min(physical, LimitOfControlGroups("")) / 2;
    // Addresses are few: most of them remain for what is no tensor.
    num_bytes = std::min(num_bytes, LimitOf(RLIMIT_AS) / 4);
  }
  // Beyond it the system would send a signal.
  num_bytes = std::min(num_bytes, LimitOf(RLIMIT_FSIZE));
  return num_bytes < kLeastBytes ? 0 : num_bytes;
}

int64_t HeapBytes() { return HeapBytes(std::getenv("TF_ADASUM_ARENA")); }

}  // namespace adasum
