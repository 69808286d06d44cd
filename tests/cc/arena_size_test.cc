// How large the arena may become: the setting, and the limits of the process.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>

#include "cc/arena/heap.h"
#include "cc/arena/heap_size.h"
#include "tests/cc/check.h"
#include "tests/cc/child_process.h"
#include "tests/cc/temporary_folder.h"

namespace adasum {
namespace {

constexpr int64_t kMiB = 1 << 20;

using test::InChild;

TEST(SettingsAreReadOrRefused) {
  int64_t num_bytes = 5;
  CHECK_TRUE(ParseHeapBytes("0", &num_bytes) && num_bytes == 0);
  CHECK_TRUE(ParseHeapBytes("1", &num_bytes) && num_bytes == -1);
  CHECK_TRUE(ParseHeapBytes("16777216", &num_bytes) && num_bytes == 16 * kMiB);
  CHECK_TRUE(ParseHeapBytes("512M", &num_bytes) && num_bytes == 512 * kMiB);
  CHECK_TRUE(ParseHeapBytes("8G", &num_bytes) && num_bytes == 8192 * kMiB);
  for (const char* wrong : {"", "no", "2", "-1", "8 G", "8GB", " 8G", "1e9", "16777215", "1K",
                            "9223372036854775808", "9007199254740992G"}) {
    test::Scope scope(wrong);
    CHECK_TRUE(!ParseHeapBytes(wrong, &num_bytes));
    // The empty one is none.
    if (*wrong != '\0') CHECK_EQ(HeapBytes(wrong), int64_t{0});
  }
}

TEST(TheLeastLimitOfTheControlGroupsHolds) {
  const test::TemporaryFolder root;
  const std::string groups = "sys/fs/cgroup/";
  const auto limit = [&] { return LimitOfControlGroups(root.path()); };
  CHECK_EQ(limit(), INT64_MAX);
  // Version 2: its own group, one around it, and all.
  root.Write("proc/self/cgroup", "0::/jobs/mine");
  CHECK_EQ(limit(), INT64_MAX);
  root.Write(groups + "jobs/mine/memory.max", "max");
  CHECK_EQ(limit(), INT64_MAX);
  root.Write(groups + "jobs/memory.max", std::to_string(3 * kMiB));
  CHECK_EQ(limit(), 3 * kMiB);
  root.Write(groups + "jobs/mine/memory.max", std::to_string(2 * kMiB));
  CHECK_EQ(limit(), 2 * kMiB);
  root.Write(groups + "memory.max", std::to_string(kMiB));
  CHECK_EQ(limit(), kMiB);
  // Version 1, whose controllers have groups of their own.
  root.Write("proc/self/cgroup", "5:cpu,cpuacct:/jobs\n4:memory:/mine\n1:name=systemd:/");
  CHECK_EQ(limit(), INT64_MAX);
  root.Write(groups + "memory/memory.limit_in_bytes", "9223372036854771712");
  root.Write(groups + "memory/mine/memory.limit_in_bytes", std::to_string(5 * kMiB));
  CHECK_EQ(limit(), 5 * kMiB);
}

TEST(LimitsOfTheProcessHold) {
  const int64_t physical = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  CHECK_TRUE(HeapBytes(nullptr) > 0 && HeapBytes(nullptr) <= physical / 2);
  CHECK_EQ(HeapBytes("64M"), 64 * kMiB);
  InChild([] {
    const rlimit file{static_cast<rlim_t>(32 * kMiB), RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &file), 0);
    CHECK_EQ(HeapBytes(nullptr), 32 * kMiB);
    CHECK_EQ(HeapBytes("64M"), 32 * kMiB);
    Heap heap;
    CHECK_TRUE(heap.Start(HeapBytes("64M")));
    std::memset(heap.Allocate(30 * kMiB, 64), 1, 30 * kMiB);
    const rlimit none{4096, RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    CHECK_EQ(HeapBytes(nullptr), int64_t{0});
  });
  InChild([] {
    // A forked child has the arena as data of its own, and needs as much for what is no tensor.
    const rlimit data{static_cast<rlim_t>(800 * kMiB), RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_DATA, &data), 0);
    CHECK_EQ(HeapBytes(nullptr), 200 * kMiB);
    CHECK_EQ(HeapBytes("64M"), 64 * kMiB);
  });
  InChild([] {
    // 400 MiB more than there is.
    int64_t num_pages = 0;
    std::ifstream("/proc/self/statm") >> num_pages;
    const int64_t most_bytes = num_pages * Heap::kPageBytes + 400 * kMiB;
    const rlimit addresses{static_cast<rlim_t>(most_bytes), RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_AS, &addresses), 0);
    CHECK_AT_MOST(HeapBytes(nullptr), most_bytes / 4);
    Heap heap;
    CHECK_TRUE(!heap.Start(most_bytes));
    CHECK_TRUE(heap.Allocate(kMiB, 64) == nullptr && heap.memory().fd == -1);
    // Of a sanitizer's addresses a quarter is more than remains.
    CHECK_TRUE(heap.Start(std::min(HeapBytes(nullptr), 100 * kMiB)));
    CHECK_TRUE(heap.Allocate(kMiB, 64) != nullptr);
  });
  InChild([] {
    const rlimit files{3, 3};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
    Heap heap;
    errno = 5;
    CHECK_TRUE(!heap.Start(64 * kMiB));
    CHECK_EQ(errno, 5);
  });
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
