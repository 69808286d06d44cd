// How many cores this process may use.
#ifndef ADASUM_BOOTSTRAP_CORES_H_
#define ADASUM_BOOTSTRAP_CORES_H_

namespace adasum {

// Those that it may run on, or as many as its control groups pay for if these are fewer: a
// container with 2 CPUs of 64 runs on each of the 64, and is stopped when it has had its share. At
// least 1. `root` comes before the paths of control groups; it is empty but in tests.
int AvailableCores(const char* root = "");

}  // namespace adasum

#endif  // ADASUM_BOOTSTRAP_CORES_H_
