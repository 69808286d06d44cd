// A group of ranks with one communication thread per process: requests go in from any thread, in
// any order, and are carried out one by one, the same one at the same time on every rank. A thread
// that would only wait for its request may carry it out itself (RunInline). One thread at a time
// owns the engine: it alone negotiates, takes requests out of the queue and uses the transport.
#ifndef ADASUM_ENGINE_COMMUNICATOR_H_
#define ADASUM_ENGINE_COMMUNICATOR_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cc/core/backoff.h"
#include "cc/core/error.h"
#include "cc/core/forks.h"
#include "cc/core/timeline.h"
#include "cc/core/transport.h"
#include "cc/engine/negotiation.h"
#include "cc/engine/request.h"
#include "cc/engine/request_queue.h"
#include "cc/engine/topology.h"
#include "cc/transport/traced_transport.h"

namespace adasum {

class Communicator {
 public:
  // `waits` is what `transport` waits by. `timeline` may be null.
  Communicator(std::unique_ptr<WaitControl> waits, std::unique_ptr<Transport> transport,
               Topology topology, std::unique_ptr<Timeline> timeline = nullptr);
  ~Communicator();

  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  // What errors call it.
  int world_rank() const { return transport_->WorldRank(rank_); }
  int size() const { return size_; }
  const Topology& topology() const { return topology_; }

  // Hands a request to the communication thread; never blocks, any thread may call it.
  void Enqueue(Request request);

  // As Enqueue, but returns when the request is done, and throws its error. The calling thread
  // carries it out itself if the communication thread is idle: two wake-ups less. `request.done`
  // is set here. Not for a thread that has other work to do.
  void RunAndWait(Request request);

  // What waits for other ranks here, or is under way; oldest first.
  std::vector<WaitingRequest> Waiting();
  // Null unless one is kept.
  Timeline* timeline() { return timeline_.get(); }

  // Ends the thread. What all ranks have begun has a few seconds to end; what is pending, or still
  // under way then, fails with Unavailable. Ranks that wait for this one, now or later, are told,
  // unless a request was cut short. Any number of calls.
  void Close();

  // As Close, for a process that ends.
  void Shutdown();

 private:
  // How the ranks stand to each other.
  enum class Standing {
    kTogether,   // between two requests
    kShutdown,   // a rank has left, and all know it
    kScattered,  // a request was cut short: nobody knows what messages may still come
  };
  // Without a reason the others are not told.
  void End(std::optional<ShutdownReason> reason);
  void SendShutdownNotice(ShutdownReason reason);
  // Goes on for so long with messages that no request waits for, so that nothing of them is kept.
  void AwaitUnderWay(double seconds);
  // The calling thread was told to end its wait for a request that another thread carries out.
  void Interrupt();
  void Loop();
  // Does the first request alone if it can; else negotiates once, and does what that decides. For
  // the owner of the engine.
  void Step(const Request& first);
  // Queues the request, or returns why none is accepted; under mutex_.
  std::optional<Error> Push(Request* request);
  // Carries out requests until `is_done`, and releases the engine, which the caller owns. Without
  // memory to fail them it ends the process, as the communication thread does.
  void RunInline(const std::function<bool()>& is_done) noexcept;
  void ReleaseEngine();
  // The transport, through the timeline if one is kept.
  Transport& transport() { return timeline_ ? traced_transport_ : *transport_; }
  // Waits for work, takes the engine and returns the oldest request; null when closing. It stays
  // where it is: only the owner takes requests out, and a deque keeps its elements in place.
  const Request* AwaitFirst();
  const Request* First();
  // Looks now and then whether others have begun what this rank joins; while the engine is free,
  // under `lock` of mutex_. Returns when there is a request, or after a while.
  void AwaitCall(std::unique_lock<std::mutex>& lock);
  // Why nothing that needs other ranks can succeed; null if it can.
  std::optional<Error> Broken();
  // Whether it needed no other rank, and is done.
  bool RanAlone(const Request& first);
  Decision Negotiate(const Request& first);
  std::vector<RequestKey> PendingKeys();
  void Execute(const Decision& decision);
  // Runs a request that all ranks agreed on, and returns its error.
  std::optional<Error> CarryOut(const Request& request, const EnclosedByAll& enclosed);
  RequestContext Context();
  // Takes a request out of the queue, and has it under way.
  Request Take(size_t index);
  void Conclude(const Request& request, const std::optional<Error>& error);
  // Lets other ranks' requests arrive before the next look.
  void LookAgainLater();
  // The first part of the end: nobody uses the transport afterwards. What others have begun has so
  // long to end before it is cut short. Under close_mutex_; returns how the ranks stand.
  Standing Stop(double seconds);
  // Whether others are in what the owner of the engine does, and would wait for it; under mutex_.
  bool OthersHaveBegun() const { return is_owned_ && (is_joining_ || queue_.has_under_way()); }
  // Throws unless this is the process that made the communicator.
  void CheckHome() const { home_.Check(world_rank()); }
  // For the owner of the engine, or when there can be none any more.
  void FailAll(const Error& error, Standing standing = Standing::kScattered);
  Error ClosedError() const;

  // Destroyed in reverse order: the transport before what it waits by.
  std::unique_ptr<WaitControl> waits_;
  std::unique_ptr<Timeline> timeline_;
  std::unique_ptr<Transport> transport_;
  TracedTransport traced_transport_;
  const int rank_;
  const int size_;
  const Topology topology_;
  // Of the thread that owns the engine.
  Negotiation negotiation_;
  std::unique_ptr<RequestState> state_;
  std::function<Request()> passive_;
  // When this rank last had something to do; for AwaitCall.
  std::chrono::steady_clock::time_point last_called_{};

  std::mutex mutex_;
  std::condition_variable changed_;
  RequestQueue queue_;  // under mutex_
  // Whether a thread owns the engine.
  bool is_owned_ = false;
  // Whether that thread joins what others have begun (AwaitCall).
  bool is_joining_ = false;
  bool is_closing_ = false;
  Standing standing_ = Standing::kTogether;
  // Why no further request can succeed, unless they stand together.
  std::optional<Error> broken_;
  const HomeProcess home_;
  std::mutex close_mutex_;
  bool is_ended_ = false;  // under close_mutex_
  std::thread thread_;
};

}  // namespace adasum

#endif  // ADASUM_ENGINE_COMMUNICATOR_H_
