#include "cc/engine/request_queue.h"

#include <chrono>
#include <utility>

namespace adasum {

void RequestQueue::Push(Request&& request) {
  request.enqueued = Timeline::Clock::now();
  pending_.push_back(std::move(request));
  ++num_pushed_;
}

std::vector<RequestKey> RequestQueue::Keys() const {
  std::vector<RequestKey> keys;
  for (const Request& request : pending_) keys.push_back(request.key);
  return keys;
}

Request RequestQueue::Take(size_t index) {
  // First what may throw, for want of memory: the request is still here then, and fails with all.
  taken_name_ = pending_[index].key.name();
  Request request = std::move(pending_[index]);
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(index));
  is_under_way_ = true;
  taken_enqueued_ = request.enqueued;
  return request;
}

std::deque<Request> RequestQueue::TakeAll() { return std::exchange(pending_, {}); }

std::vector<WaitingRequest> RequestQueue::Waiting() const {
  const auto now = Timeline::Clock::now();
  auto seconds_since = [now](Timeline::Clock::time_point then) {
    return std::chrono::duration<double>(now - then).count();
  };
  std::vector<WaitingRequest> waiting;
  if (is_under_way_) waiting.push_back({taken_name_, seconds_since(taken_enqueued_), true});
  for (const Request& request : pending_) {
    waiting.push_back({request.key.name(), seconds_since(request.enqueued), false});
  }
  return waiting;
}

}  // namespace adasum
