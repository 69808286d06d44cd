// How many cores a process may use: those it may run on, and what its control groups pay for.

#include "cc/bootstrap/cores.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/cc/check.h"

namespace adasum {
namespace {

// Writes a file below the root, and the folders that it is in.
void Write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text << "\n";
}

TEST(TheLeastQuotaOfTheControlGroupsHolds) {
  cpu_set_t affinity;
  CHECK_EQ(sched_getaffinity(0, sizeof(affinity), &affinity), 0);
  const int all = CPU_COUNT(&affinity);
  char name[] = "/tmp/cores_test.XXXXXX";
  const std::filesystem::path root = mkdtemp(name);
  const std::filesystem::path groups = root / "sys/fs/cgroup";
  const auto cores = [&] { return AvailableCores(root.c_str()); };
  CHECK_EQ(cores(), all);
  // Version 2: its own group, one around it, and that of a container, which is all that it sees.
  Write(root / "proc/self/cgroup", "0::/jobs/mine");
  CHECK_EQ(cores(), all);
  Write(groups / "jobs/mine/cpu.max", "max 100000");
  CHECK_EQ(cores(), all);
  Write(groups / "jobs/cpu.max", "100000000 100000");
  CHECK_EQ(cores(), all);
  Write(groups / "jobs/cpu.max", "50000 100000");
  CHECK_EQ(cores(), 1);
  Write(groups / "jobs/cpu.max", "max 100000");
  Write(groups / "cpu.max", "100000 100000");
  CHECK_EQ(cores(), 1);
  // Parts of a core count as one.
  Write(groups / "cpu.max", "110000 100000");
  CHECK_EQ(cores(), std::min(all, 2));
  // Version 1, whose controllers have groups of their own; cpuset and cpuacct are others.
  Write(root / "proc/self/cgroup", "6:cpuset:/\n5:cpuacct,cpu:/jobs\n4:memory:/mine");
  CHECK_EQ(cores(), all);
  Write(groups / "cpu/jobs/cpu.cfs_period_us", "100000");
  Write(groups / "cpu/jobs/cpu.cfs_quota_us", "-1");
  CHECK_EQ(cores(), all);
  Write(groups / "cpu/jobs/cpu.cfs_quota_us", "100000");
  CHECK_EQ(cores(), 1);
  Write(root / "proc/self/cgroup", "6:cpuset:/jobs\n5:cpuacct:/jobs");
  CHECK_EQ(cores(), all);
  // What can't be read is no limit.
  Write(root / "proc/self/cgroup", "0::/jobs/mine");
  Write(groups / "cpu.max", "nonsense");
  CHECK_EQ(cores(), all);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
