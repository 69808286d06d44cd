// What becomes of kernels, for tests that look at their order.
#ifndef ADASUM_TESTS_CUDA_STAND_IN_LAUNCHES_H_
#define ADASUM_TESTS_CUDA_STAND_IN_LAUNCHES_H_

#include <functional>

namespace cuda_stand_in {

enum class Kernel { kMoments, kCombine, kOther };

// Of this process. `launched` is called by the thread that launches; the others by the stream,
// before and after the kernel's work: one that does not return is a kernel that takes long.
struct Watch {
  std::function<void(Kernel)> launched, begins, ended;
};

// Before the first launch.
void SetWatch(Watch watch);

}  // namespace cuda_stand_in

#endif  // ADASUM_TESTS_CUDA_STAND_IN_LAUNCHES_H_
