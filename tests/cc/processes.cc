#include "tests/cc/processes.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <vector>

#include "tests/cc/check.h"

namespace adasum {
namespace test {
namespace {

[[noreturn]] void RunChild(int rank, int limit_seconds, Board* board,
                           const std::function<void(int, Board*)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(limit_seconds);
  Scope scope("process " + std::to_string(rank));
  try {
    body(rank, board);
  } catch (const std::exception& error) {
    Fail(__FILE__, __LINE__, error.what());
  }
  std::fflush(nullptr);
  _exit(NumFailures() > 0 ? 1 : 0);
}

// Waits for the next process that ends, and takes it out of the list; whether it ended well.
bool AwaitOne(std::vector<pid_t>* processes) {
  int status = 0;
  const pid_t ended = waitpid(-1, &status, 0);
  const auto found = std::find(processes->begin(), processes->end(), ended);
  const std::string rank = std::to_string(found - processes->begin());
  if (found != processes->end()) *found = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  Fail(__FILE__, __LINE__,
       "process " + rank +
           (WIFSIGNALED(status) ? " ended by signal " + std::to_string(WTERMSIG(status))
                                : std::string(" failed")));
  return false;
}

}  // namespace

void ForEachProcess(int size, int limit_seconds,
                    const std::function<void(int rank, Board* board)>& body) {
  void* shared =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return Fail(__FILE__, __LINE__, "mmap failed");
  Board* board = new (shared) Board{};
  std::vector<pid_t> processes;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t process = fork();
    if (process == 0) RunChild(rank, limit_seconds, board, body);
    processes.push_back(process);
  }
  for (int num_ended = 0; num_ended < size; ++num_ended) {
    if (AwaitOne(&processes)) continue;
    // The others would wait for it.
    for (pid_t process : processes) {
      if (process != 0) kill(process, SIGKILL);
    }
  }
  for (int rank = 0; rank < size; ++rank) {
    CHECK_EQ(board->of_rank[rank].noted.load(), board->of_rank[0].noted.load());
  }
  munmap(shared, sizeof(Board));
}

std::unique_ptr<ShmTransport> Connect(int rank, int size, Board* board, const WaitControl& waits) {
  auto transport = std::make_unique<ShmTransport>(rank, size, waits);
  transport->Address().copy(board->of_rank[rank].address, sizeof(Board::OfRank::address) - 1);
  board->num_connected.fetch_add(1);
  Backoff backoff(waits, "the other processes", -1);
  while (board->num_connected.load() < size) backoff.Pause();
  std::vector<std::string> addresses;
  for (int peer = 0; peer < size; ++peer) addresses.emplace_back(board->of_rank[peer].address);
  transport->Connect(addresses);
  return transport;
}

void NoteEqual(int rank, Board* board, uint64_t value) {
  // In order: noted values are chained.
  std::atomic<uint64_t>& noted = board->of_rank[rank].noted;
  noted = (noted.load() ^ value) * 0x9E3779B97F4A7C15u;
}

}  // namespace test
}  // namespace adasum
