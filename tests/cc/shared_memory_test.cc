// The files through which ranks of a host share memory: whose they are, and whom an error names.

#include "cc/transport/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "cc/core/error.h"
#include "cc/transport/host_ends.h"
#include "tests/cc/check.h"
#include "tests/cc/worlds.h"

namespace adasum {
namespace {

using test::ForEachRank;
using test::Scope;
using test::Wire;
using test::World;

// What the function throws; empty if nothing.
template <typename Function>
std::string ErrorOf(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

int64_t LengthOf(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 ? static_cast<int64_t>(status.st_size) : -1;
}

// A program may close descriptors that it did not open, and open files of its own under their
// numbers: these must be neither cut nor closed.
TEST(AFileUnderTheSameNumberStaysAsItIs) {
  constexpr int64_t kLength = 1 << 20;
  auto memory = SharedMemory::Create(4096);
  const int fd = memory->fd();
  const int theirs = memfd_create("a file of the program", MFD_CLOEXEC);
  CHECK_EQ(ftruncate(theirs, kLength), 0);
  CHECK_EQ(dup2(theirs, fd), fd);
  const std::string grown = ErrorOf([&] { memory->Grow(8192); });
  const std::string followed = ErrorOf([&] { memory->Follow(8192); });
  CHECK_TRUE(grown.find("has closed a descriptor that it did not open") != std::string::npos);
  CHECK_EQ(followed, grown);
  memory.reset();
  CHECK_EQ(LengthOf(fd), kLength);
  close(fd);
  close(theirs);
}

TEST(DescriptorsAreAboveThoseThatDaemonsClose) {
  const auto memory = SharedMemory::Create(4096);
  const int fd = memory->fd();
  CHECK_TRUE(fd >= 100);
  CHECK_TRUE((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
}

// Ranks 2 and 3 are the first and the second on their host.
TEST(AnErrorNamesTheRankAndNotItsNumberOnTheHost) {
  World world(Wire::kThreads, 4, 5);
  ForEachRank(4, [&](int rank) {
    WaitControl waits;
    waits.timeouts.silence_seconds = 0.2;
    const std::vector<int> first_on_host =
        rank < 2 ? std::vector<int>{0, 1, -1, -1} : std::vector<int>{-1, -1, 0, 1};
    const auto ends =
        ConnectHostEnds(world.transport(rank), first_on_host, {1, 2, 32, false, false}, waits);
    CHECK_EQ(ends.size(), size_t{1});
    if (ends.empty()) return;
    char byte = 0;
    const int other = 1 - first_on_host[rank];
    const std::string error =
        ErrorOf([&] { ends[0]->SendRecv({other, nullptr, 0}, {other, &byte, 1}); });
    const int peer = rank / 2 * 2 + other;
    const std::string expected = "Waited 0.2 s in an exchange of shared memory for rank ";
    Scope scope(error);
    CHECK_EQ(error.find(expected + std::to_string(peer) + ", which said nothing"), size_t{0});
  });
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
