#include "cc/engine/communicator.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "cc/core/default_floats.h"
#include "cc/core/threads.h"
#include "cc/engine/outcome.h"
#include "cc/engine/run_request.h"

namespace adasum {
namespace {

constexpr auto kLookAgainAfter = std::chrono::milliseconds(2);
// How often a thread looks whether it was told to end its wait.
constexpr auto kLookForInterruptEvery = std::chrono::milliseconds(50);
// How long a rank that others may call sleeps between two looks: a sixteenth of the time since it
// was called last, so that few wake-ups cost others little, within these bounds. One that was not
// called for long is not in the midst of a training.
constexpr auto kShortestSleep = std::chrono::microseconds(50);
constexpr auto kLongestSleep = std::chrono::milliseconds(1);
constexpr auto kLong = std::chrono::seconds(10);
constexpr auto kSleepAfterLong = std::chrono::milliseconds(10);

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
      negotiation_(*waits_) {
  try {
    thread_ = StartThread(transport_->RankName(rank_), [this] { Loop(); });
  } catch (...) {
    transport_->Leave();  // the others may have their end of this group
    throw;
  }
}

Communicator::~Communicator() {
  End(std::nullopt);
  // What ops have is kept by whoever has them (Transport::HasAbandoned); here is what a request
  // without a caller used.
  if (transport_->HasAbandoned()) state_.release();
}

std::optional<Error> Communicator::Push(Request* request) {
  // Where a rank has left in good order, what needs no other rank may still be done.
  const bool may_run = standing_ == Standing::kShutdown && request->run_alone != nullptr;
  if (broken_ && !may_run) return broken_;
  if (is_closing_) return ClosedError();
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
  } catch (const std::bad_alloc&) {
    refusal = NoMemoryError(transport_->RankName(rank_), request);
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
    if (!IsInterrupted()) continue;
    Interrupt();
    outcome.SetInterrupted();
  }
  outcome.ThrowIfFailed();
}

void Communicator::Interrupt() {
  // The thread that carries it out uses the caller's memory: it has to end first. A request that
  // was begun can't be taken back from the others either.
  std::lock_guard<std::mutex> close_lock(close_mutex_);
  Stop(0);
  FailAll(InterruptedError());
}

void Communicator::RunInline(const std::function<bool()>& is_done) noexcept {
  DefaultFloats floats;
  for (;;) {
    const Request* first = First();
    if (first == nullptr) break;  // closing, which fails the request; or it has failed
    Step(*first);
    if (is_done()) break;
    if (IsInterrupted()) FailAll(InterruptedError());
  }
  ReleaseEngine();
}

void Communicator::ReleaseEngine() {
  bool is_awaited;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_owned_ = false;
    is_joining_ = false;
    if (passive_) last_called_ = std::chrono::steady_clock::now();
    is_awaited = is_closing_ || !queue_.is_empty() || passive_;
  }
  if (is_awaited) changed_.notify_all();
}

void Communicator::Loop() {
  DefaultFloats floats;  // not those of the thread that made this one
  for (;;) {
    const Request* first = AwaitFirst();
    if (first == nullptr) return;
    Step(*first);
    ReleaseEngine();
  }
}

void Communicator::Step(const Request& first) {
  try {
    if (RanAlone(first)) return;
    if (const std::optional<Error> broken = Broken()) return FailAll(*broken);
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

std::optional<Error> Communicator::Broken() {
  std::lock_guard<std::mutex> lock(mutex_);
  return broken_;
}

bool Communicator::RanAlone(const Request& first) {
  if (!first.run_alone) return false;
  RequestContext context = Context();
  if (!first.run_alone(context)) return false;
  Conclude(Take(0), std::nullopt);
  return true;
}

Decision Communicator::Negotiate(const Request& first) {
  TimelineSpan span(timeline_.get(), "negotiate");
  return negotiation_.Decide(transport(), first.key, first.enclosure,
                             [this] { return PendingKeys(); });
}

const Request* Communicator::AwaitFirst() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_closing_ && (queue_.is_empty() || is_owned_)) {
    if (is_owned_ || !passive_ || broken_) {
      changed_.wait(lock);
    } else {
      AwaitCall(lock);
    }
  }
  if (is_closing_) return nullptr;
  is_owned_ = true;
  return &queue_.first();
}

void Communicator::AwaitCall(std::unique_lock<std::mutex>& lock) {
  if (transport_->HasArrived()) {
    is_joining_ = true;
    return queue_.Push(passive_());
  }
  using Duration = std::chrono::steady_clock::duration;
  const Duration idle = std::chrono::steady_clock::now() - last_called_;
  const Duration sleep = std::clamp<Duration>(idle / 16, kShortestSleep, kLongestSleep);
  changed_.wait_for(lock, idle > kLong ? Duration(kSleepAfterLong) : sleep);
}

const Request* Communicator::First() {
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
  const Request request = Take(decision.index);
  std::optional<Error> error;
  try {
    if (decision.kind == Decision::Kind::kFail) {
      error =
          Error(ErrorCode::kInvalidArgument, transport_->RankName(rank_) + ": " + decision.message);
    } else {
      error = CarryOut(request, decision.enclosed);
    }
  } catch (const std::exception& exception) {  // no memory for a name
    error = Error(ErrorCode::kInternal, exception.what());
    FailAll(*error);
  }
  Conclude(request, error);
}

Request Communicator::Take(size_t index) {
  std::lock_guard<std::mutex> lock(mutex_);
  return queue_.Take(index);
}

void Communicator::Conclude(const Request& request, const std::optional<Error>& error) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.EndUnderWay();
  }
  request.done(error ? &*error : nullptr);
}

RequestContext Communicator::Context() {
  return {transport(), *transport_, topology_, *waits_, timeline_.get(), state_, passive_};
}

std::optional<Error> Communicator::CarryOut(const Request& request, const EnclosedByAll& enclosed) {
  if (timeline_) timeline_->Add("queue: " + request.key.name(), request.enqueued, -1, 0);
  const auto begin = timeline_ ? Timeline::Clock::now() : Timeline::Clock::time_point();
  transport().Begin();
  RequestContext context = Context();
  context.enclosed = enclosed;
  std::optional<Error> error = RunRequest(request, context);
  if (error && transport_->HasAbandoned()) error->SetNeedsMemoryKept();
  if (timeline_) timeline_->Add(request.key.name(), begin, -1, 0);
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

}  // namespace adasum
