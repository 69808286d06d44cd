// A group of ranks with one communication thread per process: requests go in from any thread, in
// any order, and are carried out one by one, the same one at the same time on every rank. A thread
// that would only wait may stand in for the communication thread meanwhile.
#ifndef ADASUM_ENGINE_COMMUNICATOR_H_
#define ADASUM_ENGINE_COMMUNICATOR_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cc/core/error.h"
#include "cc/core/forks.h"
#include "cc/core/patience.h"
#include "cc/core/timeline.h"
#include "cc/core/transport.h"
#include "cc/engine/agreement.h"
#include "cc/engine/request.h"
#include "cc/engine/topology.h"
#include "cc/transport/traced_transport.h"

namespace adasum {

class Communicator {
 public:
  // `limits` is what `transport` waits by. `timeline` may be null.
  Communicator(std::unique_ptr<WaitLimits> limits, std::unique_ptr<Transport> transport,
               Topology topology, std::unique_ptr<Timeline> timeline = nullptr);
  ~Communicator();

  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Topology& topology() const { return topology_; }
  const WaitLimits& limits() const { return *limits_; }

  // Hands a request to the communication thread; never blocks, any thread may call it.
  void Enqueue(Request request);

  // As Enqueue, but returns when the request is done, and throws its error. The calling thread
  // carries it out itself if the communication thread is idle: two wake-ups less. `request.done`
  // is set here. Not for a thread that has other work to do.
  void RunAndWait(Request request);

  // Ends the thread; what is pending or under way fails with Unavailable. Ranks that wait for this
  // one, now or later, are told, unless it closes in the midst of a request. Waits for a few
  // seconds at most. Any number of calls.
  void Close();

  // As Close, for a process that ends.
  void Leave();

 private:
  // How the ranks stand to each other.
  enum class Standing {
    kTogether,   // between two requests
    kParted,     // a rank has left, and all know it
    kScattered,  // a request was cut short: nobody knows what messages may still come
  };
  // Without a departure the others are not told.
  void End(std::optional<Departure> departure);
  void SayGoodbye(Departure departure);
  // The calling thread was told to end its wait for a request that another thread carries out.
  void Interrupt();
  void Loop();
  // One agreement and what it decides; by whoever has the turn.
  void Step(const Intent& first);
  // Queues the request, or returns why none is accepted; under mutex_.
  std::optional<Error> Push(Request* request);
  // Has the turn: carries out requests until `is_done`.
  void StandIn(const std::atomic<bool>& is_done);
  void PassTurn();
  // The transport, through the timeline if one is kept.
  Transport& transport() { return timeline_ ? traced_transport_ : *transport_; }
  // Waits for work and the turn, and returns the oldest request's intent; null when closing. Only
  // who has the turn takes requests out, and a deque keeps its elements in place, so that it stays
  // valid.
  const Intent* AwaitFirst();
  const Intent* First();
  Decision Agree(const Intent& first);
  std::vector<Intent> PendingIntents();
  Request TakePending(size_t index);
  void Carry(const Decision& decision);
  // Lets other ranks' requests arrive before the next look.
  void LookAgainLater();
  // The first part of the end: nobody uses the transport afterwards. Under close_mutex_; returns
  // how the ranks stand.
  Standing Stop();
  // Throws unless this is the process that made the communicator.
  void CheckHome() const;
  void FailAll(const Error& error, Standing standing = Standing::kScattered);

  // Destroyed in reverse order: the transport before the limits it refers to.
  std::unique_ptr<WaitLimits> limits_;
  std::unique_ptr<Timeline> timeline_;
  std::unique_ptr<Transport> transport_;
  TracedTransport traced_transport_;
  const int rank_;
  const int size_;
  const Topology topology_;
  // Of the thread that has the turn.
  Agreement agreement_;
  std::unique_ptr<RequestState> state_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> pending_;
  int64_t num_enqueued_ = 0;
  // Whether a thread is carrying out requests.
  bool is_turn_taken_ = false;
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
