#include "cc/transport/mpi_contexts.h"

#include <chrono>
#include <string>
#include <thread>

#include "cc/core/error.h"
#include "cc/transport/mpi_check.h"
#include "cc/transport/mpi_end.h"
#include "cc/transport/mpi_tags.h"

namespace adasum {

std::atomic<int> MpiContexts::num_in_use_{0};

LastMessages::~LastMessages() {
  if (!MpiIsUsable()) return;
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    // The wait for a cancelled receive does not depend on any other process.
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

void LastMessages::Expect(MPI_Comm comm, int from, int tag, int64_t num_bytes) {
  bytes_.push_back(std::make_unique<char[]>(num_bytes));
  requests_.push_back(MPI_REQUEST_NULL);
  CheckMpi(MPI_Irecv(bytes_.back().get(), static_cast<int>(num_bytes), MPI_BYTE, from, tag, comm,
                     &requests_.back()),
           "MPI_Irecv");
}

bool LastMessages::Progress() {
  if (requests_.empty()) return true;
  int done = 0;
  const int code =
      MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE);
  return code == MPI_SUCCESS && done != 0;
}

MpiContexts::MpiContexts(MPI_Comm comm) {
  int* largest = nullptr;
  int is_known = 0;
  CheckMpi(MPI_Comm_get_attr(comm, MPI_TAG_UB, &largest, &is_known), "MPI_Comm_get_attr");
  constexpr int kLeastAllowed = 32767;  // by the standard
  limit_ = static_cast<int>((int64_t{is_known ? *largest : kLeastAllowed} + 1) / kTagsOfContext);
}

int MpiContexts::Take() {
  std::lock_guard<std::mutex> lock(mutex_);
  Progress();
  if (free_.empty()) {
    if (never_taken_ < limit_) {
      ++num_in_use_;
      return never_taken_++;
    }
    throw Error(ErrorCode::kInvalidArgument,
                "Expected at most " + std::to_string(limit_) +
                    " communicators that are open at the same time in a process. Received: one "
                    "more. Close those that are no longer needed.");
  }
  const int number = *free_.begin();
  free_.erase(free_.begin());
  ++num_in_use_;
  return number;
}

void MpiContexts::GiveBack(int number, std::unique_ptr<LastMessages> last) {
  std::lock_guard<std::mutex> lock(mutex_);
  closing_.push_back({number, std::move(last)});
  Progress();
}

void MpiContexts::Progress() {
  for (auto closing = closing_.begin(); closing != closing_.end();) {
    if (closing->last->Progress()) {
      free_.insert(closing->number);
      --num_in_use_;
      closing = closing_.erase(closing);
    } else {
      ++closing;
    }
  }
}

void MpiContexts::Drain(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (;;) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      Progress();
      if (closing_.empty()) return;
      if (std::chrono::duration<double>(Clock::now() - begin).count() > seconds) {
        closing_.clear();
        return;
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace adasum
