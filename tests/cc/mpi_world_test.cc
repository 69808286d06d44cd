// How the users of MPI leave it: whoever finalises it, and whoever lets go of a world meanwhile.

#include "cc/transport/mpi_world.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/cc/check.h"

namespace adasum {
namespace {

void StartMpi() {
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
}

// Before this process starts MPI: a program may load the library and fork what becomes the rank.
TEST(AForkedChildThatIsTheRankLeaves) {
  const pid_t child = fork();
  if (child == 0) {
    StartMpi();
    bool has_left = false;
    const auto world =
        MpiWorld::Duplicate(MPI_Comm_c2f(MPI_COMM_SELF), [&has_left] { has_left = true; });
    MPI_Finalize();
    _exit(has_left ? 0 : 1);
  }
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(WIFEXITED(status) && WEXITSTATUS(status) == 0, true);
}

// Once in a process, so that this is one test.
TEST(WorldsEndWhileMpiIsFinalised) {
  StartMpi();
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
