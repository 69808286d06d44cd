// On which devices the library makes contexts: each takes memory of its device.

#include <thread>

#include "cc/cuda/resources.cu.h"
#include "tests/cc/check.h"
#include "tests/cuda_stand_in/devices.h"

namespace adasum {
namespace {

using cuda_stand_in::CurrentDevice;
using cuda_stand_in::HasContext;

// A new thread, as the communication thread is one: device 0 is current on it.
TEST(ThreadThatWorksOnOneDeviceMakesNoContextOnAnother) {
  std::thread([] {
    for (int request = 0; request < 2; ++request) {
      DeviceScope scope(1);
      CHECK_EQ(CurrentDevice(), 1);
    }
  }).join();
  CHECK_TRUE(HasContext(1));
  CHECK_TRUE(!HasContext(0));
}

// Last, since it makes the context on device 0.
TEST(WorkOnTwoDevicesLeavesTheCurrentOneAsItWas) {
  DeviceScope outer(0);
  {
    DeviceScope inner(1);
    CHECK_EQ(CurrentDevice(), 1);
  }
  CHECK_EQ(CurrentDevice(), 0);
  cudaSetDevice(1);
  {
    DeviceScope inner(0);
  }
  CHECK_EQ(CurrentDevice(), 1);
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
