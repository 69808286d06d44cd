// The requests of one communicator that are not done: those that wait, and the one under way.
#ifndef ADASUM_ENGINE_REQUEST_QUEUE_H_
#define ADASUM_ENGINE_REQUEST_QUEUE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "cc/engine/negotiation.h"
#include "cc/engine/request.h"

namespace adasum {

// A request for people who look what a rank waits for.
struct WaitingRequest {
  std::string name;
  double seconds;     // since it was enqueued
  bool is_under_way;  // all ranks have come to it, and exchange
};

// Whoever has it has a lock for it.
class RequestQueue {
 public:
  // A throw, for want of memory, leaves `request` as it was.
  void Push(Request&& request);
  bool is_empty() const { return pending_.empty(); }
  int64_t num_pushed() const { return num_pushed_; }
  // The oldest that waits. It stays where it is until it is taken.
  const Request& first() const { return pending_.front(); }
  std::vector<RequestKey> Keys() const;

  // Takes out the index-th of those that wait; it is under way until EndUnderWay. A throw, for want
  // of memory, leaves it where it is.
  Request Take(size_t index);
  void EndUnderWay() { is_under_way_ = false; }
  bool has_under_way() const { return is_under_way_; }
  std::deque<Request> TakeAll();

  // Oldest first, the one under way before all.
  std::vector<WaitingRequest> Waiting() const;

 private:
  std::deque<Request> pending_;
  int64_t num_pushed_ = 0;
  bool is_under_way_ = false;
  // Of the request that was taken last. Assigned, so that a name costs no allocation.
  std::string taken_name_;
  Timeline::Clock::time_point taken_enqueued_;
};

}  // namespace adasum

#endif  // ADASUM_ENGINE_REQUEST_QUEUE_H_
