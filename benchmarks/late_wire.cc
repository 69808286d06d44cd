// Preloaded into ranks: an MPI of which some messages are late. Of those that ranks start by
// themselves (Transport::Start) a share, drawn at random, is there some time after it has come;
// late_wire.py says which share, and when. It stands in MPI's profiling interface, between the
// library and the real MPI, which still carries every byte.

#include <mpi.h>

#include <chrono>
#include <map>
#include <mutex>
#include <random>

#include "cc/transport/mpi_tags.h"

namespace {

using Clock = std::chrono::steady_clock;

// Messages that will be late, by where the library keeps their requests.
class LateMessages {
 public:
  void Set(double share, double milliseconds) {
    std::lock_guard<std::mutex> lock(mutex_);
    share_ = share;
    lateness_ = std::chrono::duration<double, std::milli>(milliseconds);
  }
  void Draw(MPI_Request* request) {
    std::lock_guard<std::mutex> lock(mutex_);
    late_.erase(request);
    if (uniform_(random_) < share_) late_[request] = Clock::time_point::max();
  }
  void Forget(MPI_Request* request) {
    std::lock_guard<std::mutex> lock(mutex_);
    late_.erase(request);
  }
  // Whether a message that has come is to be there.
  bool IsDue(MPI_Request* request) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = late_.find(request);
    if (found == late_.end()) return true;
    const Clock::time_point now = Clock::now();
    if (found->second == Clock::time_point::max()) {
      found->second = now + std::chrono::duration_cast<Clock::duration>(lateness_);
    }
    if (now < found->second) return false;
    late_.erase(found);
    return true;
  }

 private:
  std::mutex mutex_;
  double share_ = 0;
  std::chrono::duration<double, std::milli> lateness_{0};
  std::mt19937 random_{std::random_device{}()};
  std::uniform_real_distribution<double> uniform_{0, 1};
  std::map<MPI_Request*, Clock::time_point> late_;
};

LateMessages& Messages() {
  static LateMessages messages;
  return messages;
}

}  // namespace

// From now on, in this process.
extern "C" void SetLateWire(double share, double milliseconds) {
  Messages().Set(share, milliseconds);
}

extern "C" int MPI_Irecv(void* bytes, int count, MPI_Datatype datatype, int peer, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  if (adasum::LaneOf(tag) != 0) {
    Messages().Draw(request);
  } else {
    Messages().Forget(request);  // of one that was there before
  }
  return PMPI_Irecv(bytes, count, datatype, peer, tag, comm, request);
}

extern "C" int MPI_Isend(const void* bytes, int count, MPI_Datatype datatype, int peer, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  Messages().Forget(request);
  return PMPI_Isend(bytes, count, datatype, peer, tag, comm, request);
}

extern "C" int MPI_Cancel(MPI_Request* request) {
  Messages().Forget(request);
  return PMPI_Cancel(request);
}

extern "C" int MPI_Testall(int count, MPI_Request requests[], int* done, MPI_Status statuses[]) {
  const int code = PMPI_Testall(count, requests, done, statuses);
  if (code == MPI_SUCCESS && *done != 0 && count > 0) *done = Messages().IsDue(requests);
  return code;
}
