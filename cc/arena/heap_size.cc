#include "cc/arena/heap_size.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "cc/arena/control_groups.h"

namespace adasum {
namespace {

constexpr int64_t kLeastBytes = 16 << 20;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// A limit of a control group; "max" is none.
int64_t LimitIn(const char* path) {
  char text[32];
  if (!ReadText(path, text) || text[0] < '0' || text[0] > '9') return kNoLimit;
  errno = 0;
  const int64_t value = std::strtoll(text, nullptr, 10);
  return errno != 0 ? kNoLimit : value;
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
  int64_t least = kNoLimit;
  VisitControlGroups(root, "memory", [&](const char* folder, bool is_version_2) {
    char path[1100];
    std::snprintf(path, sizeof(path), "%s/%s", folder,
                  is_version_2 ? "memory.max" : "memory.limit_in_bytes");
    least = std::min(least, LimitIn(path));
  });
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
    // A forked child has all of it as memory of its own, which this limit counts.
    num_bytes = std::min(num_bytes, LimitOf(RLIMIT_DATA) / 4);
  }
  // Beyond it the system would send a signal.
  num_bytes = std::min(num_bytes, LimitOf(RLIMIT_FSIZE));
  return num_bytes < kLeastBytes ? 0 : num_bytes;
}

int64_t HeapBytes() { return HeapBytes(std::getenv("TF_ADASUM_ARENA")); }

}  // namespace adasum
