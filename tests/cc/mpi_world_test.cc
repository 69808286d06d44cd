// A world's last user may let go of it while MPI is being finalised by another thread.

#include "cc/transport/mpi_world.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/cc/check.h"

namespace adasum {
namespace {

// Once in a process, so that this is one test.
TEST(WorldsEndWhileMpiIsFinalised) {
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  std::atomic<bool> is_ending{false};
  constexpr int kWorlds = 1000;
  std::vector<std::shared_ptr<MpiWorld>> worlds;
  for (int i = 0; i < kWorlds; ++i) {
    worlds.push_back(MpiWorld::Duplicate(MPI_Comm_c2f(MPI_COMM_SELF), [&] { is_ending = true; }));
  }
  std::thread last_user([&] {
    while (!is_ending) std::this_thread::yield();
    // The youngest first, as MPI visits attributes.
    while (!worlds.empty()) worlds.pop_back();
  });
  CHECK_EQ(MPI_Finalize(), MPI_SUCCESS);
  last_user.join();
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
