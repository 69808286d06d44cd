// One operation of all ranks, as the engine is handed it.
#ifndef ADASUM_ENGINE_REQUEST_H_
#define ADASUM_ENGINE_REQUEST_H_

#include <functional>
#include <memory>

#include "cc/core/backoff.h"
#include "cc/core/error.h"
#include "cc/core/timeline.h"
#include "cc/core/transport.h"
#include "cc/engine/negotiation.h"
#include "cc/engine/topology.h"

namespace adasum {

struct Request;

// What the code behind the requests keeps from one request to the next, such as buffers and
// threads. The engine owns it and knows no more of it.
class RequestState {
 public:
  virtual ~RequestState() = default;
  // Goes on with messages that no request waits for; whether any are under way. Never waits.
  virtual bool HasUnderWay() { return false; }
};

// What a request works with while it is carried out.
struct RequestContext {
  Transport& transport;  // adds its messages to the timeline, if one is kept
  Transport& untraced;   // the same transport, and the timeline hears nothing
  const Topology& topology;
  WaitControl& waits;
  Timeline* timeline;  // null unless one is kept
  // Null until a request sets it. Destroyed before the transport.
  std::unique_ptr<RequestState>& state;
  // Makes the request with which this rank, while it has none of its own, joins those that others
  // begin. Empty until a request sets it. Of a communicator that then carries nothing else.
  std::function<Request()>& passive;
  // What the ranks have enclosed with the request's key (Request::enclosure).
  EnclosedByAll enclosed = {};
};

// Called exactly once; null for success. Must not throw.
using Done = std::function<void(const Error*)>;

struct Request {
  RequestKey key;
  // Runs on the communication thread once all ranks agreed; may throw Error. Unless that is common,
  // the communicator can't be used afterwards.
  std::function<void(RequestContext&)> run;
  // Called on the thread that carries out requests or, where these fail together, on that which
  // closes or interrupts the communicator; after Close on the caller's. Everything
  // that `run` points to must stay until then.
  Done done;
  // Set by the queue.
  Timeline::Clock::time_point enqueued = {};
  // Asked before ranks agree, on the thread that carries out requests: does what can be done
  // without them and returns true, or returns false. Empty where all need the others.
  std::function<bool(RequestContext&)> run_alone = {};
  // Where it is sent with the key `run` finds it in the context; whether it is, all ranks know
  // alike.
  Enclosure enclosure = {};
};

}  // namespace adasum

#endif  // ADASUM_ENGINE_REQUEST_H_
