// Whether device memory may be handed to MPI is MPI's to say, by a function that not every MPI
// has. This program brings its own, which is found first.

#include <cstdlib>

#include "cc/transport/mpi_world.h"
#include "tests/cc/check.h"

namespace {
int answer = 0;
}  // namespace

extern "C" int MPIX_Query_cuda_support() { return answer; }

namespace adasum {
namespace {

TEST(MpiSaysWhetherItTakesDeviceMemory) {
  unsetenv("TF_ADASUM_CUDA_MPI");
  CHECK_EQ(MpiTakesDeviceMemory(), false);
  answer = 1;
  CHECK_EQ(MpiTakesDeviceMemory(), true);
}

TEST(ASettingAnswersInItsPlace) {
  answer = 1;
  setenv("TF_ADASUM_CUDA_MPI", "0", 1);
  CHECK_EQ(MpiTakesDeviceMemory(), false);
  setenv("TF_ADASUM_CUDA_MPI", "1", 1);
  CHECK_EQ(MpiTakesDeviceMemory(), true);
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
