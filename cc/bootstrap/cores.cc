#include "cc/bootstrap/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

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

}  // namespace

int AvailableCores(const char* root) {
  cpu_set_t affinity;
  int cores = sched_getaffinity(0, sizeof(affinity), &affinity) == 0 ? CPU_COUNT(&affinity) : 1;
  VisitControlGroups(root, "cpu", [&](const char* folder, bool is_version_2) {
    double quota = 0, period = 0;
    // Version 1 says -1 where there is none.
    if (!ReadQuota(folder, is_version_2, &quota, &period) || quota <= 0 || period <= 0) return;
    cores = static_cast<int>(std::min<double>(cores, std::ceil(quota / period)));
  });
  return cores;
}

}  // namespace adasum
