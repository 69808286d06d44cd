#include "cc/bootstrap/cores.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "cc/arena/control_groups.h"

namespace adasum {
namespace {

// Microseconds of all cores that a group gets in a period of so many; false where it has no limit.
bool ReadQuota(const std::string& folder, bool is_version_2, double* quota, double* period) {
  char text[64];
  if (is_version_2) {
    return ReadText((folder + "/cpu.max").c_str(), text) &&
           std::sscanf(text, "%lf %lf", quota, period) == 2;
  }
  return ReadText((folder + "/cpu.cfs_quota_us").c_str(), text) &&
         std::sscanf(text, "%lf", quota) == 1 &&
         ReadText((folder + "/cpu.cfs_period_us").c_str(), text) &&
         std::sscanf(text, "%lf", period) == 1;
}

// Of those that the system lets this process run on; a host may have more than one cpu_set_t holds.
int AllowedCores() {
  for (size_t count = 1; count <= 64; count *= 2) {
    std::vector<cpu_set_t> sets(count);
    const size_t num_bytes = count * sizeof(cpu_set_t);
    if (sched_getaffinity(0, num_bytes, sets.data()) == 0) {
      return CPU_COUNT_S(num_bytes, sets.data());
    }
    if (errno != EINVAL) break;
  }
  return 1;
}

}  // namespace

int AvailableCores(const char* root) {
  int cores = AllowedCores();
  VisitControlGroups(root, "cpu", [&](const char* folder, bool is_version_2) {
    double quota = 0, period = 0;
    // Version 1 says -1 where there is none.
    if (!ReadQuota(folder, is_version_2, &quota, &period) || quota <= 0 || period <= 0) return;
    cores = static_cast<int>(std::min<double>(cores, std::ceil(quota / period)));
  });
  return cores;
}

}  // namespace adasum
