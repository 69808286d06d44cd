// How a communicator ends, and what becomes of the requests that it has then.

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "cc/engine/communicator.h"

namespace adasum {
namespace {

// How long a rank that leaves waits until what all have begun is done, and again until its last
// messages are on their way.
constexpr double kShutdownSeconds = 2;

}  // namespace

Error Communicator::ClosedError() const {
  return Error(ErrorCode::kUnavailable,
               transport_->RankName(rank_) +
                   ": Expected an open communicator. Received: one that was closed, by close(), by "
                   "MPI_Finalize, or because the process ends. Make another one by split().");
}

void Communicator::Close() { End(ShutdownReason::kClosed); }

void Communicator::Shutdown() { End(ShutdownReason::kEnded); }

void Communicator::End(std::optional<ShutdownReason> reason) {
  if (!home_.IsHere()) return;
  std::lock_guard<std::mutex> close_lock(close_mutex_);
  if (std::exchange(is_ended_, true)) return;
  const Standing standing = Stop(reason ? kShutdownSeconds : 0);
  if (standing != Standing::kScattered) AwaitUnderWay(reason ? kShutdownSeconds : 0);
  if (reason && standing == Standing::kTogether) SendShutdownNotice(*reason);
  if (standing == Standing::kShutdown) ConcludeAfterShutdown(*transport_);
  // Not beside a notice, which says more, and comes behind what was sent before.
  if (reason && standing == Standing::kScattered) transport_->Leave();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!broken_) broken_ = ClosedError();
    standing_ = Standing::kScattered;
  }
  FailAll(ClosedError());
  if (timeline_) timeline_->Close();
}

void Communicator::AwaitUnderWay(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  try {
    while (state_ && state_->HasUnderWay() && Clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } catch (const Error&) {
    // A rank that they go to has ended: there is nobody to wait for.
  }
}

void Communicator::SendShutdownNotice(ShutdownReason reason) {
  waits_->cancellation.Reset();
  waits_->timeouts.silence_seconds = std::min(waits_->timeouts.silence_seconds, kShutdownSeconds);
  try {
    adasum::SendShutdownNotice(*transport_, reason);
  } catch (const Error&) {
    // A rank takes nothing more in: it has ended, or finds out later, as do those behind it.
    transport_->Leave();
  }
}

Communicator::Standing Communicator::Stop(double seconds) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    is_closing_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                      [this] { return !OthersHaveBegun(); });
    waits_->cancellation.Cancel();
  }
  if (thread_.joinable()) thread_.join();
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !is_owned_; });
  return standing_;
}

void Communicator::FailAll(const Error& error, Standing standing) {
  std::deque<Request> failed;
  bool breaks = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (standing_ == Standing::kTogether) {
      standing_ = standing;
      breaks = standing == Standing::kScattered;
      broken_ = Error(ErrorCode::kUnavailable,
                      std::string("This communicator can't be used any more; restart the ranks, "
                                  "from the last checkpoint. It broke with: ") +
                          error.what());
    }
    failed = queue_.TakeAll();
  }
  if (breaks) transport_->LeaveAfter(error);  // so that nobody waits for this rank in its turn
  for (const Request& request : failed) request.done(&error);
}

}  // namespace adasum
