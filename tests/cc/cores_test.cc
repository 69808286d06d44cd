// How many cores a process may use: those it may run on, and what its control groups pay for.

#include "cc/bootstrap/cores.h"

#include <sched.h>

#include <algorithm>
#include <string>

#include "tests/cc/check.h"
#include "tests/cc/temporary_folder.h"

namespace adasum {
namespace {

TEST(TheLeastQuotaOfTheControlGroupsHolds) {
  cpu_set_t affinity;
  CHECK_EQ(sched_getaffinity(0, sizeof(affinity), &affinity), 0);
  const int all = CPU_COUNT(&affinity);
  const test::TemporaryFolder root;
  const std::string groups = "sys/fs/cgroup/";
  const auto cores = [&] { return AvailableCores(root.path()); };
  CHECK_EQ(cores(), all);
  // Version 2: its own group, one around it, and that of a container, which is all that it sees.
  root.Write("proc/self/cgroup", "0::/jobs/mine");
  CHECK_EQ(cores(), all);
  root.Write(groups + "jobs/mine/cpu.max", "max 100000");
  CHECK_EQ(cores(), all);
  root.Write(groups + "jobs/cpu.max", "100000000 100000");
  CHECK_EQ(cores(), all);
  root.Write(groups + "jobs/cpu.max", "50000 100000");
  CHECK_EQ(cores(), 1);
  root.Write(groups + "jobs/cpu.max", "max 100000");
  root.Write(groups + "cpu.max", "100000 100000");
  CHECK_EQ(cores(), 1);
  // Parts of a core count as one.
  root.Write(groups + "cpu.max", "110000 100000");
  CHECK_EQ(cores(), std::min(all, 2));
  // Version 1, whose controllers have groups of their own; cpuset and cpuacct are others.
  root.Write("proc/self/cgroup", "6:cpuset:/\n5:cpuacct,cpu:/jobs\n4:memory:/mine");
  CHECK_EQ(cores(), all);
  root.Write(groups + "cpu/jobs/cpu.cfs_period_us", "100000");
  root.Write(groups + "cpu/jobs/cpu.cfs_quota_us", "-1");
  CHECK_EQ(cores(), all);
  root.Write(groups + "cpu/jobs/cpu.cfs_quota_us", "100000");
  CHECK_EQ(cores(), 1);
  root.Write("proc/self/cgroup", "6:cpuset:/jobs\n5:cpuacct:/jobs");
  CHECK_EQ(cores(), all);
  // What can't be read is no limit.
  root.Write("proc/self/cgroup", "0::/jobs/mine");
  root.Write(groups + "cpu.max", "nonsense");
  CHECK_EQ(cores(), all);
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
