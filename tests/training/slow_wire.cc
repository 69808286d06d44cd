// Preloaded into the ranks of overlap_test.py: an MPI whose messages take as long as on a wire of
// SLOW_WIRE_BYTES_PER_SECOND. It stands in MPI's profiling interface, between the library under
// test and the real MPI, which still carries every byte.

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>

namespace {

using Clock = std::chrono::steady_clock;

double BytesPerSecond() {
  static const double rate = std::strtod(std::getenv("SLOW_WIRE_BYTES_PER_SECOND"), nullptr);
  return rate;
}

// The exchange under way. The communication thread has one at a time.
struct Exchange {
  double num_bytes = 0;
  bool has_arrived = false;
  Clock::time_point due;
};
thread_local Exchange exchange;

std::atomic<int64_t> num_bytes_sent{0};

}  // namespace

// Of this process, since it began.
extern "C" int64_t SlowWireBytesSent() { return num_bytes_sent; }

extern "C" int MPI_Isend(const void* bytes, int count, MPI_Datatype datatype, int peer, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  exchange.num_bytes += count;
  num_bytes_sent += count;
  return PMPI_Isend(bytes, count, datatype, peer, tag, comm, request);
}

// The time on the wire counts from when both ranks have met, as for one that is always free.
extern "C" int MPI_Testall(int count, MPI_Request requests[], int* done, MPI_Status statuses[]) {
  if (!exchange.has_arrived) {
    int code = PMPI_Testall(count, requests, done, statuses);
    if (code != MPI_SUCCESS || !*done) return code;
    std::chrono::duration<double> on_the_wire(exchange.num_bytes / BytesPerSecond());
    exchange.due = Clock::now() + std::chrono::duration_cast<Clock::duration>(on_the_wire);
    exchange.has_arrived = true;
  }
  *done = Clock::now() >= exchange.due;
  if (*done) exchange = Exchange();
  return MPI_SUCCESS;
}
