// Whether device memory may be handed to MPI is MPI's to say, by a function that not every MPI
// has. This program brings its own, which is found first.

#include "cc/transport/mpi_world.h"
#include "tests/cc/check.h"

namespace {
int answer = 0;
}  // namespace

extern "C" int MPIX_Query_cuda_support() { return answer; }

namespace adasum {
namespace {

TEST(MpiSaysWhetherItTakesDeviceMemory) {
  answer = 0;
  CHECK_EQ(MpiTakesDeviceMemory(true), false);
  answer = 1;
  CHECK_EQ(MpiTakesDeviceMemory(true), true);
}

TEST(WhatIsNotWantedIsNotAsked) {
  answer = 1;
  CHECK_EQ(MpiTakesDeviceMemory(false), false);
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
