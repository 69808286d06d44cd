#include "cc/engine/communicator.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "cc/core/default_floats.h"
#include "cc/engine/outcome.h"

namespace adasum {
namespace {

constexpr auto kLookAgainAfter = std::chrono::milliseconds(2);
// How long a rank that leaves waits until its last messages are on their way.
constexpr double kShutdownSeconds = 2;
// How often a thread looks whether it was told to end its wait.
constexpr auto kLookForInterruptEvery = std::chrono::milliseconds(50);

// Runs a request; nothing but Error leaves.
std::optional<Error> Run(const Request& request, RequestContext context) {
  try {
    request.run(context);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& exception) {
    return Error(ErrorCode::kInternal, exception.what());
  }
}

Error ClosedError(int rank) {
  return Error(ErrorCode::kUnavailable,
               "rank " + std::to_string(rank) +
                   ": Expected an open communicator. Received: one that was closed, by close(), by "
                   "MPI_Finalize, or because the process ends. Make another one by split().");
}

}  // namespace

Communicator::Communicator(std::unique_ptr<WaitControl> waits, std::unique_ptr<Transport> transport,
                           Topology topology, std::unique_ptr<Timeline> timeline)
    : waits_(std::move(waits)),
      timeline_(std::move(timeline)),
      transport_(std::move(transport)),
      traced_transport_(transport_.get(), timeline_.get()),
      rank_(transport_->rank()),
      size_(transport_->size()),
      topology_(std::move(topology)),
      negotiation_(*waits_),
      thread_([this] { Loop(); }) {}

Communicator::~Communicator() { End(std::nullopt); }

void Communicator::CheckHome() const {
  if (home_.IsHere()) return;
  throw Error(ErrorCode::kUnavailable,
              "rank " + std::to_string(rank_) +
                  ": Expected the process that joined the group of ranks. Received: a child that "
                  "was forked from it, which can't speak for the rank. Use tf_adasum in the rank "
                  "itself, and children for work of other kinds.");
}

std::optional<Error> Communicator::Push(Request* request) {
  if (broken_) return broken_;
  if (is_closing_) return ClosedError(rank_);
  queue_.Push(std::move(*request));
  return std::nullopt;
}

void Communicator::Enqueue(Request request) {
  std::optional<Error> refusal;
  try {
    CheckHome();
    std::lock_guard<std::mutex> lock(mutex_);
    refusal = Push(&request);
  } catch (const Error& error) {
    refusal = error;
  }
  if (refusal) {
    request.done(&*refusal);
  } else {
    changed_.notify_all();
  }
}

void Communicator::RunAndWait(Request request) {
  CheckHome();
  Outcome outcome;
  request.done = [&outcome](const Error* error) { outcome.Set(error); };
  bool owns_engine = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::optional<Error> refusal = Push(&request);
    if (refusal) throw *refusal;
    owns_engine = !std::exchange(is_owned_, true);
  }
  if (owns_engine) {
    RunInline([&outcome] { return outcome.is_known(); });
  } else {
    changed_.notify_all();
  }
  while (!outcome.AwaitFor(kLookForInterruptEvery)) {
    if (IsInterrupted()) Interrupt();
  }
  outcome.ThrowIfFailed();
}

void Communicator::Interrupt() {
  // The thread that carries it out uses the caller's memory: it has to end first. A request that
  // was begun can't be taken back from the others either.
  std::lock_guard<std::mutex> close_lock(close_mutex_);
  Stop();
  FailAll(InterruptedError());
}

void Communicator::RunInline(const std::function<bool()>& is_done) {
  DefaultFloats floats;
  while (!is_done()) {
    if (IsInterrupted()) FailAll(InterruptedError());
    const RequestKey* first = First();
    if (first == nullptr) break;  // closing, which fails the request; or it has failed
    Step(*first);
  }
  ReleaseEngine();
}

void Communicator::ReleaseEngine() {
  bool is_awaited;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_owned_ = false;
    is_awaited = is_closing_ || !queue_.is_empty();
  }
  if (is_awaited) changed_.notify_all();
}

void Communicator::Close() { End(ShutdownReason::kClosed); }

void Communicator::Shutdown() { End(ShutdownReason::kEnded); }

void Communicator::End(std::optional<ShutdownReason> reason) {
  if (!home_.IsHere()) return;
  std::lock_guard<std::mutex> close_lock(close_mutex_);
  if (std::exchange(is_ended_, true)) return;
  const Standing standing = Stop();
  if (reason && standing == Standing::kTogether) SendShutdownNotice(*reason);
  if (standing == Standing::kShutdown) ConcludeAfterShutdown(*transport_);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!broken_) broken_ = ClosedError(rank_);
    standing_ = Standing::kScattered;
  }
  FailAll(ClosedError(rank_));
  if (timeline_) timeline_->Close();
}

void Communicator::SendShutdownNotice(ShutdownReason reason) {
  waits_->cancellation.Reset();
  waits_->timeouts.silence_seconds = std::min(waits_->timeouts.silence_seconds, kShutdownSeconds);
  try {
    adasum::SendShutdownNotice(*transport_, reason);
  } catch (const Error&) {
    // A rank that takes nothing more in has ended, or has timeouts of its own.
  }
}

Communicator::Standing Communicator::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_closing_ = true;
    waits_->cancellation.Cancel();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !is_owned_; });
  return standing_;
}

void Communicator::Loop() {
  DefaultFloats floats;  // not those of the thread that made this one
  for (;;) {
    const RequestKey* first = AwaitFirst();
    if (first == nullptr) return;
    Step(*first);
    ReleaseEngine();
  }
}

void Communicator::Step(const RequestKey& first) {
  try {
    Decision decision = Negotiate(first);
    if (decision.kind == Decision::Kind::kShutdown) {
      FailAll(Error(ErrorCode::kUnavailable, decision.message), Standing::kShutdown);
    } else if (decision.kind == Decision::Kind::kLookAgain) {
      LookAgainLater();
    } else {
      Execute(decision);
    }
  } catch (const Error& error) {
    FailAll(error);
  } catch (const std::exception& exception) {
    FailAll(Error(ErrorCode::kInternal, exception.what()));
  }
}

Decision Communicator::Negotiate(const RequestKey& first) {
  TimelineSpan span(timeline_.get(), "negotiate");
  return negotiation_.Decide(transport(), first, [this] { return PendingKeys(); });
}

const RequestKey* Communicator::AwaitFirst() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return is_closing_ || (!queue_.is_empty() && !is_owned_); });
  if (is_closing_) return nullptr;
  is_owned_ = true;
  return &queue_.first();
}

const RequestKey* Communicator::First() {
  std::lock_guard<std::mutex> lock(mutex_);
  return is_closing_ || queue_.is_empty() ? nullptr : &queue_.first();
}

std::vector<RequestKey> Communicator::PendingKeys() {
  std::lock_guard<std::mutex> lock(mutex_);
  return queue_.Keys();
}

std::vector<WaitingRequest> Communicator::Waiting() {
  std::lock_guard<std::mutex> lock(mutex_);
  return queue_.Waiting();
}

void Communicator::Execute(const Decision& decision) {
  Request request = [&] {
    std::lock_guard<std::mutex> lock(mutex_);
    return queue_.Take(decision.index);
  }();
  std::optional<Error> error;
  if (decision.kind == Decision::Kind::kFail) {
    error = Error(ErrorCode::kInvalidArgument,
                  "rank " + std::to_string(rank_) + ": " + decision.message);
  } else {
    error = CarryOut(request);
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.EndUnderWay();
  }
  request.done(error ? &*error : nullptr);
}

std::optional<Error> Communicator::CarryOut(const Request& request) {
  if (timeline_) timeline_->Add("queue: " + request.key.name, request.enqueued, -1, 0);
  const auto begin = timeline_ ? Timeline::Clock::now() : Timeline::Clock::time_point();
  transport().Begin();
  std::optional<Error> error =
      Run(request, {transport(), *transport_, topology_, *waits_, timeline_.get(), state_});
  if (error && transport_->HasAbandoned()) error->SetNeedsMemoryKept();
  if (timeline_) timeline_->Add(request.key.name, begin, -1, 0);
  // All was checked before the first byte, so that an error of one rank here is a lost peer or a
  // failing library: the ranks no longer stand at the same point. Before the caller hears of it,
  // who can't have another request accepted then.
  if (error && !error->is_common()) FailAll(*error);
  return error;
}

void Communicator::LookAgainLater() {
  std::unique_lock<std::mutex> lock(mutex_);
  const int64_t num_seen = queue_.num_pushed();
  changed_.wait_for(lock, kLookAgainAfter,
                    [&] { return is_closing_ || queue_.num_pushed() > num_seen; });
}

void Communicator::FailAll(const Error& error, Standing standing) {
  std::deque<Request> failed;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (standing_ == Standing::kTogether) {
      standing_ = standing;
      broken_ = Error(ErrorCode::kUnavailable,
                      std::string("This communicator can't be used any more; restart the ranks, "
                                  "from the last checkpoint. It broke with: ") +
                          error.what());
    }
    failed = queue_.TakeAll();
  }
  for (const Request& request : failed) request.done(&error);
}

}  // namespace adasum
