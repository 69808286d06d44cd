// Preloaded into the ranks of abandoned_test.py: an MPI that on rank STALLED_WIRE_RANK stops in the
// midst of its first large message, for STALLED_WIRE_SECONDS. It stands in MPI's profiling
// interface, between the library under test and the real MPI, which still carries every byte.

#include <mpi.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

constexpr int kLargeBytes = 1 << 15;  // a long vector goes in parts of 60 KiB
// Of the message's progress: it has been announced to the other rank, and a part of it may be
// there. Not the whole: a look sends at most what a socket's buffers take, and the message has 64
// MiB.
constexpr int kLooksBefore = 5;

thread_local int num_looks = -1;  // since the large message began

bool IsStalled(MPI_Comm comm) {
  int rank = -1;
  MPI_Comm_rank(comm, &rank);
  return rank == std::atoi(std::getenv("STALLED_WIRE_RANK"));
}

}  // namespace

extern "C" int MPI_Isend(const void* bytes, int count, MPI_Datatype datatype, int peer, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  if (count >= kLargeBytes && num_looks < 0 && IsStalled(comm)) num_looks = 0;
  return PMPI_Isend(bytes, count, datatype, peer, tag, comm, request);
}

extern "C" int MPI_Testall(int count, MPI_Request requests[], int* done, MPI_Status statuses[]) {
  if (num_looks >= 0 && ++num_looks == kLooksBefore) {
    const double seconds = std::strtod(std::getenv("STALLED_WIRE_SECONDS"), nullptr);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  return PMPI_Testall(count, requests, done, statuses);
}
